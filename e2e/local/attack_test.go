package local

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// How many hostile connections are open at once.
	waveSize = 2000
	// How long a wave's connections are held and dripped into, once all of them are open.
	waveTime = 2 * time.Second
	// The environment variable with the assault as JSON, for a process that is to attack.
	attackVariable = "RAMCLOUD_TEST_ATTACK"
)

// TestMain lets this program be the attacker of its own tests: a separate process can get a scheduling class
// that uses only idle processor time. (Real attackers have machines of their own.)
func TestMain(m *testing.M) {
	if order := os.Getenv(attackVariable); order != "" {
		var a assault
		if err := json.Unmarshal([]byte(order), &a); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		a.run(os.Stdout)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// kind of port.
type kind string

const (
	dataPort kind = "data"
	httpPort kind = "http"
	grpcPort kind = "grpc"
)

// target is a port under attack.
type target struct {
	Address string
	Kind    kind
}

// assault is the task of an attacking process.
type assault struct {
	Targets  []target
	Greeting []byte // a client's hello
	Total    int    // connections
}

// What a hostile connection does after its opening bytes.
type manner int

const (
	leaves manner = iota // closes at once
	resets               // closes without a FIN
	holds                // says nothing more and reads nothing
	drips                // sends a byte now and then
)

// opening is the first bytes of a hostile connection, and its behaviour after them.
type opening struct {
	name  string
	bytes []byte
	then  manner
}

// stranger makes the openings for the kinds of ports.
type stranger struct{ greeting, noise []byte }

func (s stranger) request(length uint32, body int) []byte {
	header := make([]byte, 48)
	binary.LittleEndian.PutUint32(header, length)
	header[4] = 1 // a request
	header[6] = 17
	return append(append(append([]byte{}, s.greeting...), header...), s.noise[:body]...)
}

// requests have the opcodes of clients, with random bodies, and unknown opcodes. (Not those of servers and
// coordinators: without authentication a well-made one is executed.)
func (s stranger) requests(random *rand.Rand) []byte {
	var all []byte
	for i := range 300 {
		body := s.noise[:random.IntN(200)]
		header := make([]byte, 48)
		binary.LittleEndian.PutUint32(header, uint32(len(body)))
		header[4] = 1 // a request
		binary.LittleEndian.PutUint16(header[6:], uint16(random.IntN(64)))
		binary.LittleEndian.PutUint64(header[16:], uint64(i)+1) // the call's id
		all = append(append(all, header...), body...)
	}
	return all
}

func (s stranger) data(random *rand.Rand) []opening {
	return []opening{
		{"garbage", s.noise[:1+random.IntN(4096)], leaves},
		{"silence", nil, holds},
		{"half a hello", s.greeting[:1+random.IntN(len(s.greeting)-1)], holds},
		{"half a message", s.request(1000, 500), leaves},
		{"an oversized length", s.request(0xffffffff, 100), holds},
		{"half of a big message", s.request(1<<20, 32<<10), holds},
		{"a slow hello", s.greeting[:1], drips},
		{"a slow message", s.request(1<<20, 0), drips},
		{"half open", s.request(1000, 500), resets},
		{"requests without reading", append(append([]byte{}, s.greeting...), s.requests(random)...), holds},
	}
}

func (s stranger) http(random *rand.Rand) []opening {
	return []opening{
		{"garbage", s.noise[:1+random.IntN(4096)], leaves},
		{"silence", nil, holds},
		{"half a request", []byte("GET /metr"), holds},
		{"a slow request", []byte("GET /metrics HTTP/1.1\r\nX: "), drips},
		{"endless headers", append([]byte("GET / HTTP/1.1\r\nX: "), bytes.Repeat([]byte("x"), 32<<10)...), holds},
		{"an oversized length", []byte("PUT /log-level HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n"), holds},
		{"a body that does not come", []byte("PUT /log-level HTTP/1.1\r\nContent-Length: 100\r\n\r\n"), drips},
		{"a request without reading", []byte("GET /trace HTTP/1.1\r\n\r\n"), holds},
		{"half open", []byte("GET /metrics HT"), resets},
	}
}

func (s stranger) grpc(random *rand.Rand) []opening {
	preface := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	return []opening{
		{"garbage", s.noise[:1+random.IntN(4096)], leaves},
		{"silence", nil, holds},
		{"half a preface", []byte(preface[:1+random.IntN(len(preface)-1)]), holds},
		{"a preface alone", []byte(preface), holds},
		{"an oversized frame", []byte(preface + "\xff\xff\xff\x01\x04\x00\x00\x00\x01"), holds},
		{"a slow frame", []byte(preface + "\x00\x40\x00\x00\x00\x00\x00\x00\x01"), drips},
		{"a slow preface", []byte("P"), drips},
		{"another protocol", []byte("GET / HTTP/1.1\r\n\r\n"), holds},
		{"half open", []byte(preface), resets},
	}
}

// attack makes one hostile connection and closes it when the context ends.
func attack(address string, o opening, random *rand.Rand, opened func(), leave <-chan struct{}) error {
	connection, err := net.DialTimeout("tcp", address, limit)
	if err != nil {
		opened()
		return err
	}
	defer func() { _ = connection.Close() }()
	_ = connection.SetDeadline(time.Now().Add(limit))
	_, _ = connection.Write(o.bytes) // the daemon may close the connection in the middle of it
	opened()
	switch o.then {
	case leaves:
	case resets:
		_ = connection.(*net.TCPConn).SetLinger(0)
	case holds:
		<-leave
	case drips:
		for every := time.NewTicker(50*time.Millisecond + time.Duration(random.IntN(100))*time.Millisecond); ; {
			select {
			case <-leave:
				every.Stop()
				return nil
			case <-every.C:
				_, _ = connection.Write([]byte("x"))
			}
		}
	}
	return nil
}

// openings for a kind of port.
func (s stranger) openings(of kind, random *rand.Rand) []opening {
	switch of {
	case httpPort:
		return s.http(random)
	case grpcPort:
		return s.grpc(random)
	default:
		return s.data(random)
	}
}

// madeLine begins the lines in which an attacker says how many connections it has made so far.
const madeLine = "made "

// run makes all the connections, wave by wave. It writes a line for each that could not be made, and how many were.
func (a assault) run(report io.Writer) {
	s := stranger{greeting: a.Greeting, noise: make([]byte, 64<<10)}
	random := rand.New(rand.NewPCG(7, 7))
	for i := range s.noise {
		s.noise[i] = byte(random.Uint32())
	}
	var lines sync.Mutex
	say := func(format string, arguments ...any) {
		lines.Lock()
		defer lines.Unlock()
		_, _ = fmt.Fprintf(report, format+"\n", arguments...)
	}
	for made := 0; made < a.Total; made += waveSize {
		leave := make(chan struct{})
		var opened, ended sync.WaitGroup
		turns := make(chan struct{}, 64) // how many connect at a time
		for i := range min(waveSize, a.Total-made) {
			at := a.Targets[i%len(a.Targets)]
			mine := rand.New(rand.NewPCG(uint64(made), uint64(i)))
			of := s.openings(at.Kind, mine)
			o := of[(made/waveSize+i/len(a.Targets))%len(of)]
			opened.Add(1)
			turns <- struct{}{}
			if n := made + i; n%100 == 0 {
				say("%s%d", madeLine, n)
			}
			ended.Go(func() {
				err := attack(at.Address, o, mine, func() { <-turns; opened.Done() }, leave)
				if err != nil {
					say("%s to %s: %v", o.name, at.Address, err)
				}
			})
		}
		opened.Wait()
		time.Sleep(waveTime)
		close(leave)
		ended.Wait()
	}
}

// begin starts a process that attacks with idle processor time only. It returns a channel that is closed when
// the process has ended, and the number of connections made so far. Failures of the attack fail the test.
func (a assault) begin(t *testing.T) (<-chan struct{}, *atomic.Int64) {
	t.Helper()
	order, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	attacker := exec.CommandContext(t.Context(), "chrt", "--idle", "0", program)
	attacker.Env = append(os.Environ(), attackVariable+"="+string(order))
	output, err := attacker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	attacker.Stderr = os.Stderr
	if err := attacker.Start(); err != nil {
		t.Fatal(err)
	}
	over, made := make(chan struct{}), new(atomic.Int64)
	t.Cleanup(func() { <-over }) // the context of the test ends before
	go func() {
		defer close(over)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if count, found := strings.CutPrefix(lines.Text(), madeLine); found {
				n, err := strconv.ParseInt(count, 10, 64)
				if err != nil {
					t.Errorf("the attacker: %v", err)
				}
				made.Store(n)
				continue
			}
			t.Error(strings.TrimSpace(lines.Text()))
		}
		if err := attacker.Wait(); err != nil && t.Context().Err() == nil {
			t.Errorf("the attacker: %v", err)
		}
	}()
	return over, made
}
