package journal

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// CHKP-02: two processes' worth of writers, readers and restarts at once. Each
// claim has one writer; what everybody sees is whole and in the end nothing is left.
func TestConcurrent(t *testing.T) {
	const writers, rounds = 8, 4
	dir := t.TempDir()
	var working, watching sync.WaitGroup
	var done atomic.Bool
	for w := range writers {
		j := open(t, dir) // no state is shared
		working.Go(func() {
			for range rounds {
				p := migPlan(fmt.Sprintf("claim-%d", w), gpuA, gpuB)
				if err := life(j, p.Claim.UID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	watching.Go(func() {
		for !done.Load() {
			j, err := Open(dir) // a restart beside the writers must not harm them
			if err != nil {
				t.Error(err)
				return
			}
			if _, errs := j.All(); len(errs) > 0 {
				t.Error(errors.Join(errs...))
			}
			if _, err := j.Held(gpuA, gpuB); err != nil {
				t.Error(err)
			}
		}
	})
	working.Wait()
	done.Store(true)
	watching.Wait()
	if left := files(t, dir); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// life takes a claim from nothing to nothing and looks whether it is held between.
func life(j *Journal, uid string) error {
	p := migPlan(uid, gpuA, gpuB)
	if err := j.Begin(p); err != nil {
		return err
	}
	for i := range p.Steps {
		if err := j.RecordResult(uid, i, result(i)); err != nil {
			return err
		}
	}
	held, err := j.Held(gpuB)
	if err != nil {
		return err
	}
	seen := false
	for _, rec := range held {
		seen = seen || rec.Plan.Claim.UID == uid
	}
	if !seen {
		return fmt.Errorf("claim %s is not seen to hold its GPU", uid)
	}
	if err := j.Finish(uid, prepared(p)); err != nil {
		return err
	}
	return j.Remove(uid)
}

// Of several that begin one claim, one succeeds.
func TestConcurrentBegin(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	var begun, refused atomic.Int32
	for range 8 {
		j := open(t, dir)
		wg.Go(func() {
			switch err := j.Begin(migPlan(uid1, gpuA)); {
			case err == nil:
				begun.Add(1)
			case errors.Is(err, ErrExists):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if begun.Load() != 1 || refused.Load() != 7 {
		t.Errorf("%d begun, %d refused", begun.Load(), refused.Load())
	}
	checkOnly(t, dir)
}

func checkOnly(t *testing.T, dir string) {
	t.Helper()
	want := fmt.Sprint([]string{"claims/" + uid1 + ".json", "held/" + string(gpuA) + "/" + uid1})
	if got := fmt.Sprint(files(t, dir)); got != want {
		t.Errorf("files %s, want %s", got, want)
	}
}

// What a claim costs, beside 0 and 500 others on other GPUs.
func BenchmarkClaim(b *testing.B) {
	for _, others := range []int{0, 500} {
		j := open(b, b.TempDir())
		for i := range others {
			put(b, j, finished(migPlan(fmt.Sprintf("other-%d", i), gpuC)))
		}
		p := migPlan(uid1, gpuA)
		b.Run(fmt.Sprintf("BeginRemove-%d", others), func(b *testing.B) {
			for b.Loop() {
				if err := errors.Join(j.Begin(p), j.Remove(uid1)); err != nil {
					b.Fatal(err)
				}
			}
		})
		put(b, j, finished(p))
		b.Run(fmt.Sprintf("LookupHeld-%d", others), func(b *testing.B) {
			for b.Loop() {
				if _, found, err := j.Lookup(uid1); !found || err != nil {
					b.Fatal(found, err)
				}
				if held, err := j.Held(gpuA); len(held) != 1 || err != nil {
					b.Fatal(held, err)
				}
			}
		})
	}
}
