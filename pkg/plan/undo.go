package plan

import "slices"

// Undo lists the indices of the steps to be undone, last first. A step without
// a result may still have happened: a crash can hit between the change and its
// record, so the first such step is in the list, too.
func (p Plan) Undo(done int) []int {
	var out []int
	for i := range p.Steps {
		if i <= done {
			out = append(out, i)
		}
	}
	slices.Reverse(out)
	return out
}

// Made is what the steps for a device have made so far: the result of the last
// of its steps that is done.
func (p Plan) Made(results []Result, device int) Result {
	var made Result
	for i, r := range results {
		if i < len(p.Steps) && p.Steps[i].Device == device {
			if r.UUID != "" || p.Steps[i].Kind == CreateGPUInstance {
				made = r
			}
		}
	}
	return made
}
