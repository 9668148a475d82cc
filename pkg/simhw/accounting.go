package simhw

import (
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// AccountingBufferSize is how many processes accounting remembers; it is what
// nvidia-smi prints for data-centre GPUs.
const AccountingBufferSize = 4000

// Account is what accounting mode has kept of one process.
type Account struct {
	Process
	Started time.Time
	// Ended is zero while the process runs.
	Ended time.Time
}

// Running tells whether the process still does.
func (a Account) Running() bool { return a.Ended.IsZero() }

// account notes who came and who went; the lock is held.
func (g *gauges) account(gpu int, now []Process, at time.Time) {
	has := func(list []Process, pid int) bool {
		return slices.ContainsFunc(list, func(p Process) bool { return p.PID == pid })
	}
	if g.accounts == nil {
		g.accounts = map[int][]Account{}
	}
	accounts := g.accounts[gpu]
	for i := range accounts {
		if accounts[i].Running() && !has(now, accounts[i].PID) {
			accounts[i].Ended = at
		}
	}
	for _, p := range now {
		i := slices.IndexFunc(accounts, func(a Account) bool { return a.PID == p.PID && a.Running() })
		if i < 0 {
			accounts = append(accounts, Account{Process: p, Started: at})
			continue
		}
		p.MemoryMiB = max(p.MemoryMiB, accounts[i].MemoryMiB)
		accounts[i].Process = p
	}
	g.accounts[gpu] = accounts[max(0, len(accounts)-AccountingBufferSize):]
}

// Accounts are the processes that accounting mode has seen on a GPU, the oldest
// first. NOT_SUPPORTED while the mode is off.
func (e *Engine) Accounts(gpu int) ([]Account, nvml.Return) {
	if _, ret := e.model(gpu); ret != nvml.SUCCESS {
		return nil, ret
	}
	if !e.Snapshot().GPUs[gpu].Settings.Accounting {
		return nil, nvml.ERROR_NOT_SUPPORTED
	}
	e.gauges.mu.Lock()
	defer e.gauges.mu.Unlock()
	return slices.Clone(e.gauges.accounts[gpu]), nvml.SUCCESS
}

// ClearAccounts forgets the processes that have ended.
func (e *Engine) ClearAccounts(gpu int) nvml.Return {
	if _, ret := e.Accounts(gpu); ret != nvml.SUCCESS {
		return ret
	}
	e.gauges.mu.Lock()
	defer e.gauges.mu.Unlock()
	e.gauges.accounts[gpu] = slices.DeleteFunc(e.gauges.accounts[gpu], func(a Account) bool { return !a.Running() })
	return nvml.SUCCESS
}
