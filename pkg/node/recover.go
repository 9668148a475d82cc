package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/cleave-dra/cleave/pkg/journal"
	"github.com/cleave-dra/cleave/pkg/plan"
	pool "github.com/cleave-dra/cleave/pkg/slices"
)

// recoverEvery is how often what could not be undone is tried again.
const recoverEvery = 10 * time.Second

// recovering undoes what an earlier process began and did not finish. The
// kubelet asks again for the claims that are still wanted, but nobody asks for
// those whose pod has gone meanwhile. It goes on until all is undone.
func (p *Plugin) recovering(ctx context.Context, begun []string) {
	logger := klog.FromContext(ctx)
	_ = wait.PollUntilContextCancel(ctx, recoverEvery, true, func(ctx context.Context) (bool, error) {
		begun = slices.DeleteFunc(begun, func(uid string) bool {
			err := p.undoBegun(ctx, uid)
			if err != nil {
				p.once.log(logger, "An unfinished claim cannot be undone yet, will try again", fmt.Errorf("claim %s: %w", uid, err))
			}
			return err == nil
		})
		return len(begun) == 0, nil
	})
}

// undoBegun undoes one claim, unless it has been finished or undone meanwhile.
func (p *Plugin) undoBegun(ctx context.Context, uid string) error {
	rec, unlock, err := p.lockRecord(ctx, uid)
	if err != nil || unlock == nil {
		return err
	}
	defer unlock()
	if rec.State != journal.Begun {
		return nil
	}
	if err := p.rollback(context.WithoutCancel(ctx), rec); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Undid an unfinished claim", "claim", rec.Plan.Claim)
	return nil
}

// inventory reads the journal at start: which claims are unfinished, and what is
// prepared. Records that cannot be read are said once and left alone.
func (p *Plugin) inventory(ctx context.Context) (begun []string) {
	records, bad := p.deps.Journal.All()
	for _, err := range bad {
		klog.FromContext(ctx).Error(err, "Read a journal record")
	}
	for _, rec := range records {
		if rec.State == journal.Begun {
			begun = append(begun, rec.Plan.Claim.UID)
		} else {
			p.deps.Metrics.Hold(deviceTypes(rec), 1)
		}
	}
	return begun
}

// deviceTypes counts a record's devices by type, as metrics name them.
func deviceTypes(rec journal.Record) map[string]int {
	byType := map[string]int{}
	for _, d := range rec.Plan.Devices {
		byType[deviceType(d)]++
	}
	return byType
}

func deviceType(d plan.Device) string {
	switch {
	case d.NIC != nil && d.GPU.PCI != "":
		return pool.TypePair
	case d.NIC != nil:
		return pool.TypeNIC
	case d.MIG != nil:
		return pool.TypeMIG
	default:
		return pool.TypeGPU
	}
}
