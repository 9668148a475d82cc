// Package cases keeps the list of failures that people met, and checks that each has
// its test.
package cases
