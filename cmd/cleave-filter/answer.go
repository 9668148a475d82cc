package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/cleave-dra/cleave/pkg/expression"
	"github.com/cleave-dra/cleave/pkg/filter"
)

// answer reads one question and writes its answer.
func answer(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	var q filter.Question
	decoder := json.NewDecoder(stdin)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&q); err != nil {
		return fmt.Errorf("read the question: %w", err)
	}
	if err := json.NewEncoder(stdout).Encode(judge(ctx, q)); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

func judge(ctx context.Context, q filter.Question) filter.Answer {
	matches, err := expression.Compile(q.Expression, q.Driver)
	if err != nil {
		return filter.Answer{Refused: err.Error()}
	}
	var out filter.Answer
	for _, d := range q.Devices {
		ok, err := matches(ctx, d)
		v := filter.Verdict{Matches: ok}
		if err != nil {
			v.Failure = err.Error()
		}
		out.Verdicts = append(out.Verdicts, v)
	}
	return out
}
