package serve

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// The protocol of pkg/simhw/shim/src/shim.c, both ends of which run on one
// machine: native byte order. The client greets with the device nodes that it can
// see and gets a return code; then every call is a request and an answer.
const (
	greetingMagic = "CLEAVE1\n"
	maxMessage    = 16 << 20
)

// argument is what the client sent for one parameter of a call.
type argument struct {
	kind uint8
	// bytes are the scalar itself or what the pointer points to.
	bytes []byte
	// capacity is how many bytes may be written behind the pointer.
	capacity uint32
}

const (
	kindValue   = 0
	kindPointer = 1
	kindNull    = 2
)

// request is one call.
type request struct {
	function  string
	arguments []argument
}

// output is what to write behind one pointer.
type output struct {
	index int
	bytes []byte
}

func readGreeting(r io.Reader) (string, error) {
	magic := make([]byte, len(greetingMagic))
	if _, err := io.ReadFull(r, magic); err != nil {
		return "", err
	}
	if string(magic) != greetingMagic {
		return "", fmt.Errorf("read greeting: %q is not %q", magic, greetingMagic)
	}
	text, err := readMessage(r)
	return string(text), err
}

func writeCode(w io.Writer, ret nvml.Return) error {
	return binary.Write(w, binary.NativeEndian, int32(ret))
}

func readMessage(r io.Reader) ([]byte, error) {
	var size uint32
	if err := binary.Read(r, binary.NativeEndian, &size); err != nil {
		return nil, err
	}
	if size > maxMessage {
		return nil, fmt.Errorf("message of %d bytes: at most %d are taken", size, maxMessage)
	}
	message := make([]byte, size)
	_, err := io.ReadFull(r, message)
	return message, err
}

func readRequest(r io.Reader) (request, error) {
	message, err := readMessage(r)
	if err != nil {
		return request{}, err
	}
	d := decoder{rest: message}
	req := request{function: string(d.take(int(d.u8())))}
	for range int(d.u8()) {
		a := argument{kind: d.u8()}
		size := d.u32()
		a.capacity = d.u32()
		a.bytes = d.take(int(size))
		req.arguments = append(req.arguments, a)
	}
	if d.short || len(d.rest) > 0 {
		return request{}, fmt.Errorf("decode call of %q: the message is malformed", req.function)
	}
	return req, nil
}

// writeAnswer sends the whole answer at once.
func writeAnswer(w io.Writer, ret nvml.Return, outputs []output) error {
	var b bytes.Buffer
	b.Write(make([]byte, 4))
	b.Write(binary.NativeEndian.AppendUint32(nil, uint32(int32(ret))))
	b.WriteByte(uint8(len(outputs)))
	for _, o := range outputs {
		b.WriteByte(uint8(o.index))
		b.Write(binary.NativeEndian.AppendUint32(nil, uint32(len(o.bytes))))
		b.Write(o.bytes)
	}
	binary.NativeEndian.PutUint32(b.Bytes(), uint32(b.Len()-4))
	_, err := w.Write(b.Bytes())
	return err
}

// decoder takes a message apart; once something is missing all is zero.
type decoder struct {
	rest  []byte
	short bool
}

func (d *decoder) take(n int) []byte {
	if n > len(d.rest) {
		d.short, d.rest = true, nil
		return make([]byte, min(n, 8))
	}
	out := d.rest[:n]
	d.rest = d.rest[n:]
	return out
}

func (d *decoder) u8() uint8   { return d.take(1)[0] }
func (d *decoder) u32() uint32 { return binary.NativeEndian.Uint32(d.take(4)) }
