// Package bench measures what matters to users of a whole node: how much work it
// accepts in the order in which Cleave publishes devices.
//
//	make bench RUN=Acceptance
package bench
