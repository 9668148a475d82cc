package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/cleave-dra/cleave/pkg/cdi"
	"github.com/cleave-dra/cleave/pkg/hardware"
	"github.com/cleave-dra/cleave/pkg/journal"
	"github.com/cleave-dra/cleave/pkg/params"
	"github.com/cleave-dra/cleave/pkg/plan"
	pool "github.com/cleave-dra/cleave/pkg/slices"
)

// undoTimeout bounds what is left to do after a failure.
const undoTimeout = 30 * time.Second

// prepare owns corridor (b) for one claim: it makes what was allocated and
// replies with the CDI devices. It never publishes.
//
// It waits a while for a device that another claim holds: a pod that was deleted by
// force frees its claim before its containers have stopped, so the next claim may
// come seconds too early, and a refusal would cost it more than a minute, because
// the kubelet does not ask again sooner.
func (p *Plugin) prepare(ctx context.Context, claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	patience, cancel := context.WithTimeout(ctx, p.cfg.HeldPatience)
	defer cancel()
	for {
		released := p.released.next()
		devices, err := p.attempt(ctx, claim)
		if !errors.Is(err, plan.ErrHeld) {
			return devices, err
		}
		select {
		case <-released:
		case <-patience.Done():
			return nil, err
		}
	}
}

// attempt walks the corridor once.
//
// Once it holds the GPUs' locks it goes on to the end although the kubelet may
// have given up waiting: hardware cannot be interrupted, and the kubelet's next
// call then finds the claim finished.
func (p *Plugin) attempt(ctx context.Context, claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	gpus, err := plan.AddressesOf(claim, p.cfg.DriverName)
	if err != nil {
		return nil, err
	}
	unlock, err := p.deps.Host.Lock(ctx, gpus)
	if err != nil {
		return nil, err
	}
	defer unlock()
	ctx = context.WithoutCancel(ctx)

	rec, ok, err := p.deps.Journal.Lookup(string(claim.UID))
	if err != nil {
		return nil, err
	}
	if ok && rec.State == journal.Finished {
		return p.confirm(ctx, rec)
	}
	if ok {
		if err := p.rollback(ctx, rec); err != nil {
			return nil, fmt.Errorf("take back an unfinished attempt: %w", err)
		}
	}
	pl, err := p.plan(ctx, claim, gpus)
	if err != nil {
		return nil, err
	}
	return p.execute(ctx, pl)
}

// plan decides what to do for a claim. The caller holds the locks of its GPUs.
func (p *Plugin) plan(ctx context.Context, claim *resourceapi.ResourceClaim, gpus []hardware.PCIAddress) (plan.Plan, error) {
	model, err := p.model.get()
	if err != nil {
		return plan.Plan{}, err
	}
	configs, err := params.ForClaim(claim, p.cfg.DriverName)
	if err != nil {
		return plan.Plan{}, err
	}
	state, err := p.deps.Host.State(ctx, model, gpus)
	if err != nil {
		return plan.Plan{}, err
	}
	holders, err := p.deps.Journal.Held(gpus...)
	if err != nil {
		return plan.Plan{}, err
	}
	in := plan.Input{
		Claim: claim, DriverName: p.cfg.DriverName, Node: model, State: state,
		Pools:     []string{pool.PoolName(p.cfg.NodeName), pool.RDMAPoolName(p.cfg.NodeName)},
		GPUConfig: configs.GPU, MIGConfig: configs.MIG, RDMAConfig: configs.RDMA, ServeExisting: p.cfg.ServeExisting,
	}
	for _, h := range holders {
		if h.Plan.Claim.UID != string(claim.UID) {
			in.Held = append(in.Held, h.Plan)
		}
	}
	return plan.New(in)
}

// execute carries a plan out: Begin, Apply, cdi.Write, Finish. If anything fails
// it is taken back, and if that fails too the record stays for the next attempt.
func (p *Plugin) execute(ctx context.Context, pl plan.Plan) ([]kubeletplugin.Device, error) {
	uid := pl.Claim.UID
	if err := p.deps.Journal.Begin(pl); err != nil {
		return nil, err
	}
	results, err := p.deps.Host.Apply(ctx, pl, func(step int, r plan.Result) error {
		return p.deps.Journal.RecordResult(uid, step, r)
	})
	rec := journal.Record{State: journal.Begun, Plan: pl, Results: results}
	if err == nil {
		err = p.finish(ctx, &rec)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(ctx, undoTimeout)
		defer cancel()
		if undoErr := p.rollback(ctx, rec); undoErr != nil {
			err = errors.Join(err, fmt.Errorf("take it back (will be tried again): %w", undoErr))
		}
		return nil, err
	}
	return reply(rec), nil
}

// finish injects what was made and closes the record.
func (p *Plugin) finish(ctx context.Context, rec *journal.Record) error {
	ids, err := p.inject(ctx, *rec)
	if err != nil {
		return err
	}
	prepared := p.prepared(*rec, ids)
	if err := p.deps.Journal.Finish(rec.Plan.Claim.UID, prepared); err != nil {
		return err
	}
	rec.State, rec.Prepared = journal.Finished, prepared
	p.deps.Metrics.Hold(deviceTypes(*rec), 1)
	p.status.prepared(*rec, p.model.sights(rec.Plan))
	p.reorder(rec.Plan)
	return nil
}

// inject writes the claim's CDI file and returns the CDI device of each of its
// devices.
func (p *Plugin) inject(ctx context.Context, rec journal.Record) ([]string, error) {
	nodes, err := p.deps.Host.DeviceNodes(ctx, rec.Plan, rec.Results)
	if err != nil {
		return nil, err
	}
	var devices []cdi.Device
	for i, d := range rec.Plan.Devices {
		device := cdi.Device{Result: d.Result, Nodes: nodes[i], NoDriver: d.GPU.PCI == ""}
		if d.NIC != nil && d.NIC.NCCL {
			device.Env, device.Files = p.model.nccl(rec.Plan)
		}
		devices = append(devices, device)
	}
	return p.deps.CDI.Write(ctx, rec.Plan.Claim.UID, devices)
}

// prepared is what a claim's record says of its devices in the end.
func (p *Plugin) prepared(rec journal.Record, cdiDevices []string) []journal.PreparedDevice {
	var out []journal.PreparedDevice
	for i, d := range rec.Plan.Devices {
		out = append(out, journal.PreparedDevice{
			Requests: []string{d.Request}, Pool: d.Pool, Device: d.Name, ShareID: d.ShareID,
			// A slice of its own: the kubelet library appends to it.
			CDIDevices: []string{cdiDevices[i]},
			Attributes: p.model.attributes(d, rec.Plan.Made(rec.Results, i)),
		})
	}
	return out
}

// confirm answers for a claim that is prepared already, after a look whether it
// still is. Its CDI file is written again: somebody may have deleted it.
func (p *Plugin) confirm(ctx context.Context, rec journal.Record) ([]kubeletplugin.Device, error) {
	err := p.deps.Host.Confirm(ctx, rec.Plan, rec.Results)
	if err == nil {
		_, err = p.inject(ctx, rec)
	}
	if errors.Is(err, hardware.ErrNotFound) || errors.Is(err, hardware.ErrReplaced) {
		return nil, fmt.Errorf("the claim was prepared, but its device is gone; delete the pod so that the claim is released: %w", err)
	}
	if err != nil {
		return nil, err
	}
	klog.FromContext(ctx).V(2).Info("Claim was prepared already")
	return reply(rec), nil
}

// unprepare takes back what was prepared for a claim. It needs neither the claim
// nor the API server, and a claim that is not known is done.
func (p *Plugin) unprepare(ctx context.Context, uid string) error {
	rec, unlock, err := p.lockRecord(ctx, uid)
	if err != nil || unlock == nil {
		return err
	}
	defer unlock()
	return p.rollback(context.WithoutCancel(ctx), rec)
}

// lockRecord locks the GPUs of a recorded claim and reads the record under that
// lock; unlock is nil if there is no record.
func (p *Plugin) lockRecord(ctx context.Context, uid string) (rec journal.Record, unlock func(), err error) {
	rec, ok, err := p.deps.Journal.Lookup(uid)
	if err != nil || !ok {
		return rec, nil, err
	}
	unlock, err = p.deps.Host.Lock(ctx, rec.Plan.Addresses())
	if err != nil {
		return rec, nil, err
	}
	rec, ok, err = p.deps.Journal.Lookup(uid)
	if err != nil || !ok {
		unlock()
		return rec, nil, err
	}
	return rec, unlock, nil
}

// rollback undoes a record and forgets it: hardware first, then the CDI file,
// the record last, so that a crash anywhere leaves something to go on from. The
// caller holds the locks.
func (p *Plugin) rollback(ctx context.Context, rec journal.Record) error {
	if err := p.deps.Host.Undo(ctx, rec.Plan, rec.Results); err != nil {
		return err
	}
	if err := p.deps.CDI.Remove(rec.Plan.Claim.UID); err != nil {
		return err
	}
	if err := p.deps.Journal.Remove(rec.Plan.Claim.UID); err != nil {
		return err
	}
	p.released.send()
	p.reorder(rec.Plan)
	if rec.State == journal.Finished {
		p.deps.Metrics.Hold(deviceTypes(rec), -1)
		p.status.withdrawn(rec.Plan.Claim)
	}
	return nil
}

// reorder wakes the publisher if a claim's coming or going changes the order of the
// pool: whole GPUs with a free NIC near them come first.
func (p *Plugin) reorder(pl plan.Plan) {
	if slices.ContainsFunc(pl.Devices, func(d plan.Device) bool { return d.NIC != nil }) {
		p.poke()
	}
}

// reply turns a finished record into the kubelet library's form.
func reply(rec journal.Record) []kubeletplugin.Device {
	var out []kubeletplugin.Device
	for _, d := range rec.Prepared {
		device := kubeletplugin.Device{
			Requests: d.Requests, PoolName: d.Pool, DeviceName: d.Device, CDIDeviceIDs: d.CDIDevices,
			Metadata: &kubeletplugin.DeviceMetadata{Attributes: d.Attributes},
		}
		if d.ShareID != "" {
			device.ShareID = ptr.To(types.UID(d.ShareID))
		}
		out = append(out, device)
	}
	return out
}
