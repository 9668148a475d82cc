package main

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/cleave-dra/cleave/test/testkit/cluster"
)

// pix is how nvidia-smi topo -m names the nearest distance.
const pix = "PIX"

func gpuWithNIC(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, "11-gpu-with-nic.yaml"); err != nil {
		return err
	}
	seen, err := s.ready(ctx, "gpu-with-nic")
	if err != nil {
		return err
	}
	if len(seen) != 2 {
		return fmt.Errorf("want a GPU and a NIC in the pod, got %d devices", len(seen))
	}
	return s.near(ctx, seen)
}

func eightPairs(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, "13-eight-pairs.yaml"); err != nil {
		return err
	}
	seen, err := s.ready(ctx, "eight-pairs")
	if err != nil {
		return err
	}
	if err := want(seen, 8, "type", "gpu-nic"); err != nil {
		return err
	}
	return s.near(ctx, seen)
}

// sharedNIC sees four slices of one GPU use one NIC.
func sharedNIC(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, "10-shared-nic.yaml"); err != nil {
		return err
	}
	pods, err := s.podsOf(ctx, "app=four", 4)
	if err != nil {
		return err
	}
	nics := map[string]bool{}
	for _, pod := range pods {
		seen, err := s.ready(ctx, pod)
		if err != nil {
			return err
		}
		for _, d := range seen {
			if nic := d.NIC(); nic != "" {
				nics[nic] = true
			}
		}
		if err := s.near(ctx, seen); err != nil {
			return err
		}
	}
	if len(nics) != 1 {
		return fmt.Errorf("want four pods with one NIC, they have %d", len(nics))
	}
	s.say("all four share one NIC")
	return nil
}

func nicAlone(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, "12-nic-alone.yaml"); err != nil {
		return err
	}
	seen, err := s.ready(ctx, "nic-alone")
	if err != nil {
		return err
	}
	return want(seen, 1, "linkLayer", "InfiniBand")
}

// near prints how far each GPU is from its NIC, by the status of the claim, and checks
// that it is the least.
func (s *stage) near(ctx context.Context, seen []cluster.Seen) error {
	distances, err := s.distances(ctx, seen)
	if err != nil {
		return err
	}
	for _, nic := range seen {
		for _, gpu := range seen {
			if !together(gpu, nic) {
				continue
			}
			distance := distances[[2]string{gpu.Device.Name, nic.Device.Name}]
			s.say("GPU %d and NIC %s: %s", gpu.GPU.Index, nic.Attribute("rdmaDevice"), distance)
			if distance != pix {
				return fmt.Errorf("want %s and the NIC %s at distance %s, they are at %q", gpu.Device.Name, nic.NIC(), pix, distance)
			}
		}
	}
	return nil
}

// together tells whether a GPU and a NIC are meant for each other: the two of a pair, or
// the only ones of a claim.
func together(gpu, nic cluster.Seen) bool {
	if gpu.GPU.UUID == "" || nic.NIC() == "" {
		return false
	}
	return gpu.NIC() == "" || gpu.Device.Name == nic.Device.Name
}

// distances are those between a claim's devices, by their names, as its status has them;
// that of a device to itself is a pair's between its GPU and its NIC.
func (s *stage) distances(ctx context.Context, seen []cluster.Seen) (map[[2]string]string, error) {
	claim := seen[0].Claim
	distances := map[[2]string]string{}
	err := wait.PollUntilContextTimeout(ctx, poll, s.timeout, true, func(ctx context.Context) (bool, error) {
		now, err := s.cluster.Client.ResourceV1().ResourceClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, d := range now.Status.Devices {
			var data struct {
				NICDistance string            `json:"nicDistance"`
				Distances   map[string]string `json:"distances"`
			}
			if err := json.Unmarshal(d.Data.Raw, &data); err != nil {
				return false, fmt.Errorf("read the status of %s: %w", d.Device, err)
			}
			distances[[2]string{d.Device, d.Device}] = data.NICDistance
			for other, distance := range data.Distances {
				distances[[2]string{d.Device, other}] = distance
			}
		}
		return len(now.Status.Devices) >= len(seen), nil
	})
	if err != nil {
		return nil, fmt.Errorf("wait for the status of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return distances, nil
}
