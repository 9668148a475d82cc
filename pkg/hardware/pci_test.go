package hardware

import (
	"strings"
	"testing"
)

func TestParsePCIAddress(t *testing.T) {
	tests := map[string]struct {
		in   string
		want PCIAddress // empty: refused
	}{
		"the kernel's form":              {in: "0000:3b:00.0", want: "0000:3b:00.0"},
		"NVML's form":                    {in: "00000000:3B:00.0", want: "0000:3b:00.0"},
		"NVML's legacy form":             {in: "0000:3B:00.0", want: "0000:3b:00.0"},
		"last function of last device":   {in: "ffff:ff:1f.7", want: "ffff:ff:1f.7"},
		"virtual machine's domain":       {in: "00000001:00:00.0", want: "0001:00:00.0"},
		"domain beyond 16 bits":          {in: "10000:e1:00.0", want: "10000:e1:00.0"},
		"domain beyond 16 bits, NVML":    {in: "00010000:E1:00.0", want: "10000:e1:00.0"},
		"domain of 32 bits":              {in: "FFFFFFFF:00:00.0", want: "ffffffff:00:00.0"},
		"empty":                          {in: ""},
		"no domain":                      {in: "3b:00.0"},
		"short domain":                   {in: "0:3b:00.0"},
		"domain beyond 32 bits":          {in: "100000000:3b:00.0"},
		"short bus":                      {in: "0000:b:00.0"},
		"bus too large":                  {in: "0000:100:00.0"},
		"device too large":               {in: "0000:3b:20.0"},
		"function too large":             {in: "0000:3b:00.8"},
		"function of two digits":         {in: "0000:3b:00.00"},
		"colon before the function":      {in: "0000:3b:00:0"},
		"0x":                             {in: "0x0000:3b:00.0"},
		"sign":                           {in: "+000:3b:00.0"},
		"space before":                   {in: " 0000:3b:00.0"},
		"newline after":                  {in: "0000:3b:00.0\n"},
		"NUL after, as in NVML's array":  {in: "0000:3b:00.0\x00"},
		"not hexadecimal":                {in: "0000:3g:00.0"},
		"digits that only look like one": {in: "٠٠٠٠:3b:00.0"},
		"a path":                         {in: "/sys/bus/pci/devices/0000:3b:00.0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParsePCIAddress(tc.in)
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("%q: got %q, %v; want %q", tc.in, got, err, tc.want)
			}
			if err != nil && !strings.Contains(err.Error(), "PCI address") {
				t.Errorf("error does not say what was read: %v", err)
			}
		})
	}
}

// FuzzParsePCIAddress asks that what is accepted has exactly one form: it is read
// back as itself, and all spellings of it are.
func FuzzParsePCIAddress(f *testing.F) {
	for _, s := range []string{"0000:3b:00.0", "00000000:3B:00.0", "10000:e1:00.0", "ffffffff:ff:1f.7", "3b:00.0", "", "0000:3b:00.0\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		addr, err := ParsePCIAddress(s)
		if err != nil {
			if addr != "" {
				t.Errorf("%q: refused, but returned %q", s, addr)
			}
			return
		}
		domain, rest, _ := strings.Cut(string(addr), ":")
		long := strings.Repeat("0", 8-len(domain)) + domain + ":" + rest
		for _, spelling := range []string{string(addr), strings.ToUpper(string(addr)), long} {
			if again, err := ParsePCIAddress(spelling); err != nil || again != addr {
				t.Errorf("%q was read as %q, but %q as %q, %v", s, addr, spelling, again, err)
			}
		}
		if back, err := AddressOf(GPU{PCI: addr}.DeviceName()); err != nil || back != addr {
			t.Errorf("%q: its device name %q is read as %q, %v", addr, GPU{PCI: addr}.DeviceName(), back, err)
		}
	})
}
