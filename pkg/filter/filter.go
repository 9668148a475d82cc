// Package filter has devices judged by a CEL expression in a process of its own, the
// program cleave-filter. The node plugin needs a judgement only when its hardware
// changes, and only where a filter is configured; but the library for such expressions
// would cost it 6 MiB of resident memory for good, on every node.
package filter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

// Question is what the program reads, as JSON.
type Question struct {
	// Expression is in the language of selectors; Driver is device.driver there.
	Expression string `json:"expression"`
	Driver     string `json:"driver"`
	// Devices are those to be judged. Without any the expression is only checked.
	Devices []resourceapi.Device `json:"devices,omitempty"`
}

// Answer is what the program writes, as JSON.
type Answer struct {
	// Refused is why the expression can be asked of no device, empty if it can.
	Refused string `json:"refused,omitempty"`
	// Verdicts has one for each device, in their order.
	Verdicts []Verdict `json:"verdicts,omitempty"`
}

// Verdict is what the expression says of a device, or why it cannot be told.
type Verdict struct {
	Matches bool   `json:"matches"`
	Failure string `json:"failure,omitempty"`
}

// patience is how long the program may take. It takes a tenth of a second; what an
// expression may cost is limited by the library.
const patience = 30 * time.Second

// Ask runs the program, a path. The error names what is wrong with the expression, or
// why the program does not answer.
func Ask(ctx context.Context, program string, q Question) ([]Verdict, error) {
	input, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("encode devices: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it did not answer within %s", patience))
	defer cancel()
	var output, complaint bytes.Buffer
	command := exec.CommandContext(ctx, program)
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(input), &output, &complaint
	command.WaitDelay = time.Second
	if err := command.Run(); err != nil {
		if said := strings.TrimSpace(complaint.String()); said != "" {
			err = fmt.Errorf("%w: %s", err, said)
		}
		return nil, fmt.Errorf("run %s: %w", program, errors.Join(context.Cause(ctx), err))
	}
	var a Answer
	if err := json.Unmarshal(output.Bytes(), &a); err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", program, err)
	}
	if a.Refused != "" {
		return nil, errors.New(a.Refused)
	}
	if len(a.Verdicts) != len(q.Devices) {
		return nil, fmt.Errorf("read the answer of %s: %d verdicts on %d devices", program, len(a.Verdicts), len(q.Devices))
	}
	return a.Verdicts, nil
}
