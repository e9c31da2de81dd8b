package raindropgorm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	raindrop "git.example.org/raindrop/clients/go"
	raindropgorm "git.example.org/raindrop/clients/go-gorm"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// The private database, the service, and what most tests use of them.
var (
	dsn, service string
	client       *raindrop.Client
	db           *gorm.DB
	ctx          = context.Background()
)

// TestMain starts a private MariaDB and the real service, which RAINDROP can name. As the process of
// an application, it only fills a table; see replay_test.go.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == application {
		check(runApplication(os.Args[2:]))
		return
	}
	// The processes below end with their thread, however this one ends.
	runtime.LockOSThread()
	folder := must(os.MkdirTemp("", "raindrop-gorm-"))
	database := startDatabase(folder)
	ids := startService(folder)
	client = must(raindrop.New([]string{service}, raindrop.Options{Deadline: 20 * time.Second}))
	db = open(raindropgorm.New(client))
	status := m.Run()
	client.Close()
	for _, process := range []*exec.Cmd{ids, database} {
		process.Process.Kill()
		process.Wait()
	}
	os.RemoveAll(folder)
	os.Exit(status)
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func open(plugins ...gorm.Plugin) *gorm.DB {
	db := must(gorm.Open(mysql.Open(dsn), &gorm.Config{
		TranslateError: true,
		Logger:         logger.Default.LogMode(logger.Silent),
	}))
	for _, plugin := range plugins {
		check(db.Use(plugin))
	}
	return db
}

func startDatabase(folder string) *exec.Cmd {
	data := "--datadir=" + filepath.Join(folder, "data")
	install := exec.Command("mariadb-install-db", "--no-defaults", data, "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=16M", "--innodb-flush-method=nosync")
	start := exec.Command("mariadbd", "--no-defaults", data, "--tmpdir="+folder,
		"--socket="+filepath.Join(folder, "sock"), "--pid-file="+filepath.Join(folder, "pid"),
		"--bind-address=127.0.0.1", "--skip-name-resolve", "--skip-log-bin", "--performance-schema=0",
		"--innodb-flush-method=nosync", "--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=64M")
	if os.Getuid() == 0 {
		install.Args, start.Args = append(install.Args, "--user=root"), append(start.Args, "--user=root")
	}
	if text, err := install.CombinedOutput(); err != nil {
		log.Fatalf("mariadb-install-db: %v\n%s", err, text)
	}
	port := freePort()
	start.Args = append(start.Args, fmt.Sprint("--port=", port))
	dsn = fmt.Sprintf("root@tcp(127.0.0.1:%d)/", port)
	startAndWait(start, filepath.Join(folder, "database.log"), func() error {
		connected, err := gorm.Open(mysql.Open(dsn), &gorm.Config{Logger: logger.Discard})
		if err != nil {
			return err
		}
		return connected.Exec("CREATE DATABASE application").Error
	})
	dsn += "application?charset=utf8mb4&parseTime=True"
	return start
}

func startService(folder string) *exec.Cmd {
	binary := os.Getenv("RAINDROP")
	if binary == "" {
		binary = filepath.Join("..", "..", "..", "target", "debug", "raindrop")
	}
	port := freePort()
	service = fmt.Sprintf("http://127.0.0.1:%d", port)
	config := filepath.Join(folder, "raindrop.toml")
	check(os.WriteFile(config, []byte(fmt.Sprintf(`
[http]
listen = "127.0.0.1:%d"

[store]
url = "sqlite://%s/raindrop.db"

[[code]]
name = "parcel"
prefix = "PCL-"
`, port, folder)), 0o600))
	start := exec.Command(binary, "serve", "--config", config)
	startAndWait(start, filepath.Join(folder, "service.log"), func() error {
		answer, err := http.Get(service + "/readyz")
		if err == nil && answer.StatusCode != 200 {
			err = errors.New(answer.Status)
		}
		return err
	})
	return start
}

// startAndWait starts a process and waits until it is ready.
func startAndWait(command *exec.Cmd, logFile string, ready func() error) {
	file := must(os.Create(logFile))
	command.Stdout, command.Stderr = file, file
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check(command.Start())
	ends := time.Now().Add(time.Minute)
	for {
		err := ready()
		if err == nil {
			return
		}
		if time.Now().After(ends) {
			file.Seek(0, io.SeekStart)
			text, _ := io.ReadAll(file)
			log.Fatalf("%s is not ready: %v\n%s", command.Path, err, text)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func freePort() int {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}
