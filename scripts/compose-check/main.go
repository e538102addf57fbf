// Command compose-check loads a compose file as docker compose does, with compose-go, and prints its services.
//
//	compose-check docker-compose.yml [profile ...]
//
// Unknown keys, wrong types, dangling references and variables without a value are errors.
package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/sirupsen/logrus"
)

// warnings collects what the loader only warns of, such as a variable that is not set.
type warnings []string

func (w *warnings) Levels() []logrus.Level { return []logrus.Level{logrus.WarnLevel} }

func (w *warnings) Fire(entry *logrus.Entry) error {
	*w = append(*w, entry.Message)
	return nil
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: compose-check FILE [PROFILE ...]")
		os.Exit(2)
	}
	if err := check(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

func check(file string, profiles []string) error {
	heard := &warnings{}
	logrus.AddHook(heard)
	options, err := cli.NewProjectOptions(
		[]string{file},
		cli.WithWorkingDirectory(filepath.Dir(file)),
		cli.WithConsistency(true),
		cli.WithInterpolation(true),
		cli.WithResolvedPaths(true),
		cli.WithProfiles(profiles),
	)
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	if len(*heard) > 0 {
		return fmt.Errorf("%s", strings.Join(*heard, "; "))
	}
	names := project.ServiceNames()
	slices.Sort(names)
	for _, name := range names {
		fmt.Println(describe(project.Services[name]))
	}
	return nil
}

func describe(service types.ServiceConfig) string {
	check := "no health check"
	if service.HealthCheck != nil {
		check = "checked by " + path.Base(service.HealthCheck.Test[min(1, len(service.HealthCheck.Test)-1)])
	}
	ports := []string{}
	for _, port := range service.Ports {
		ports = append(ports, fmt.Sprintf("%s:%s->%d", port.HostIP, port.Published, port.Target))
	}
	return fmt.Sprintf("%-22s %-28s %-14s %-36s %s",
		service.Name, service.Image, service.Restart, check, strings.Join(ports, " "))
}
