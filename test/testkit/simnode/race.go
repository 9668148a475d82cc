//go:build race

package simnode

const raceEnabled = true
