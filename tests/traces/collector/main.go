// An OpenTelemetry collector with the receiver for OTLP, which prints the traces that it gets to
// standard output, one JSON object of OTLP a line.
package main

import (
	"context"
	"log"
	"os"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

// printer is an exporter that needs no settings.
type printer struct {
	component.StartFunc
	component.ShutdownFunc
}

func (printer) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (printer) ConsumeTraces(_ context.Context, traces ptrace.Traces) error {
	line, err := (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
	if err == nil {
		_, err = os.Stdout.Write(append(line, '\n'))
	}
	return err
}

func newPrinter(context.Context, exporter.Settings, component.Config) (exporter.Traces, error) {
	return printer{}, nil
}

func factories() (otelcol.Factories, error) {
	receivers, err := otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	if err != nil {
		return otelcol.Factories{}, err
	}
	printers := exporter.NewFactory(component.MustNewType("print"),
		func() component.Config { return &struct{}{} },
		exporter.WithTraces(newPrinter, component.StabilityLevelStable))
	exporters, err := otelcol.MakeFactoryMap[exporter.Factory](printers)
	telemetry := otelconftelemetry.NewFactory()
	return otelcol.Factories{Receivers: receivers, Exporters: exporters, Telemetry: telemetry}, err
}

func main() {
	settings := otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "otelcol", Description: "the tests' collector"},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{
			ResolverSettings: confmap.ResolverSettings{
				DefaultScheme:     "yaml",
				ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
			},
		},
	}
	if err := otelcol.NewCommand(settings).Execute(); err != nil {
		log.Fatal(err)
	}
}
