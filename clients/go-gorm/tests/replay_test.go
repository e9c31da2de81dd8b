package raindropgorm_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	raindrop "git.example.org/raindrop/clients/go"
	raindropgorm "git.example.org/raindrop/clients/go-gorm"
	"github.com/bwmarrin/snowflake"
	"gorm.io/gorm"
)

// The first argument of the processes that applications run as.
const application = "run-the-application"

// Guessed gets its IDs as many applications do it: the worker id is guessed from the process, which
// is the first one in every container.
type Guessed struct {
	ID     int64 `gorm:"primaryKey;autoIncrement:false"`
	Writer int
}

var guessed *snowflake.Node

func (g *Guessed) BeforeCreate(*gorm.DB) error {
	g.ID = guessed.Generate().Int64()
	return nil
}

// Leased gets its IDs by the plug-in.
type Leased struct {
	ID     int64 `gorm:"primaryKey;autoIncrement:false;raindrop:leased"`
	Writer int
}

// runApplication inserts rows one by one, and prints how many had a key that existed already.
func runApplication(arguments []string) error {
	model, writer, count := arguments[0], must(strconv.Atoi(arguments[1])), must(strconv.Atoi(arguments[2]))
	dsn = arguments[3]
	client, err := raindrop.New([]string{arguments[4]}, raindrop.Options{Deadline: 20 * time.Second})
	if err != nil {
		return err
	}
	defer client.Close()
	db := open(raindropgorm.New(client))
	if guessed, err = snowflake.NewNode(int64(os.Getpid() % 1024)); err != nil {
		return err
	}
	fmt.Println("pid", os.Getpid())
	// Begins with the others.
	io.ReadAll(os.Stdin)
	repeated := 0
	for range count {
		var row any = &Leased{Writer: writer}
		if model == "guessed" {
			row = &Guessed{Writer: writer}
		}
		switch err := db.Create(row).Error; {
		case errors.Is(err, gorm.ErrDuplicatedKey):
			repeated++
		case err != nil:
			return err
		}
	}
	fmt.Println("repeated", repeated)
	return nil
}

// runTwoApplications runs each as the first process of a namespace, as containers do, and returns
// how many keys were repeated.
func runTwoApplications(t *testing.T, model string, count int) (repeated int) {
	self := must(os.Executable())
	var outputs [2]*bufio.Reader
	var processes [2]*exec.Cmd
	var inputs [2]io.WriteCloser
	for writer := range processes {
		p := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--", self, application, model,
			fmt.Sprint(writer), fmt.Sprint(count), dsn, service)
		if os.Getuid() != 0 {
			p.Args = append([]string{"unshare", "--user", "--map-root-user"}, p.Args[1:]...)
		}
		p.Stderr = os.Stderr
		inputs[writer] = must(p.StdinPipe())
		outputs[writer] = bufio.NewReader(must(p.StdoutPipe()))
		check(p.Start())
		t.Cleanup(func() { p.Process.Kill() })
		processes[writer] = p
	}
	// Both are ready before either writes.
	for writer, output := range outputs {
		if line, err := output.ReadString('\n'); line != "pid 1\n" {
			t.Fatalf("application %d printed %q: %v", writer, line, err)
		}
	}
	for _, input := range inputs {
		input.Close()
	}
	for writer, p := range processes {
		text, err := io.ReadAll(outputs[writer])
		if err = errors.Join(err, p.Wait()); err != nil {
			t.Fatalf("application %d: %v", writer, err)
		}
		var n int
		if _, err := fmt.Sscanf(string(text), "repeated %d\n", &n); err != nil {
			t.Fatalf("application %d printed %q", writer, text)
		}
		repeated += n
	}
	return repeated
}

// Two containers that guess the same worker id lose inserts; with leased ranges there is none to
// guess.
func TestTwoApplicationsRepeatGuessedIDsAndNoLeasedOnes(t *testing.T) {
	const count = 2000
	check(db.AutoMigrate(&Guessed{}, &Leased{}))
	for _, one := range []struct {
		model  string
		rows   any
		repeat bool
	}{{"guessed", &Guessed{}, true}, {"leased", &Leased{}, false}} {
		repeated := runTwoApplications(t, one.model, count)
		var stored int64
		check(db.Model(one.rows).Count(&stored).Error)
		t.Logf("%s IDs: %d of %d inserts repeated a key", one.model, repeated, 2*count)
		if (repeated > 0) != one.repeat || stored+int64(repeated) != 2*count {
			t.Errorf("%s IDs: %d repeated, %d rows", one.model, repeated, stored)
		}
	}
}
