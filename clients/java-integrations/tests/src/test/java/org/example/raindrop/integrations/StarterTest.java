package org.example.raindrop.integrations;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.time.Duration;
import java.util.List;
import org.example.raindrop.RaindropClient;
import org.example.raindrop.RaindropException;
import org.example.raindrop.RaindropMetrics;
import org.example.raindrop.spring.RaindropAutoConfiguration;
import org.example.raindrop.spring.RaindropCustomizer;
import org.example.raindrop.spring.RaindropProperties;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationContext;

class StarterTest {
  private static Service service;

  @BeforeAll
  static void start() throws Exception {
    service = new Service();
  }

  @AfterAll
  static void stop() throws Exception {
    service.close();
  }

  private static ApplicationContextRunner application() {
    return new ApplicationContextRunner()
        .withConfiguration(AutoConfigurations.of(RaindropAutoConfiguration.class))
        .withPropertyValues("raindrop.urls=" + service.url(), "raindrop.deadline=20s");
  }

  /** Returns the health as text, because its class differs between Boot 3 and 4. */
  private static String health(ApplicationContext context) throws Exception {
    Object indicator = context.getBean("raindropHealthIndicator");
    return indicator.getClass().getInterfaces()[0].getMethod("health").invoke(indicator).toString();
  }

  @Test
  void the_client_draws_and_is_closed_with_the_context() {
    RaindropClient[] client = new RaindropClient[1];
    application()
        .run(
            context -> {
              client[0] = context.getBean(RaindropClient.class);
              assertThat(client[0].next("order")).isPositive();
            });
    assertThatThrownBy(() -> client[0].next("order"))
        .isInstanceOfSatisfying(
            RaindropException.class,
            e -> assertThat(e.kind()).isEqualTo(RaindropException.Kind.CLOSED));
  }

  @Test
  void defaults_are_those_of_the_client() {
    application()
        .withPropertyValues("raindrop.deadline=2s")
        .run(
            context ->
                assertThat(context.getBean(RaindropProperties.class).builder())
                    .usingRecursiveComparison()
                    .ignoringFields("metrics")
                    .isEqualTo(RaindropClient.builder().url(service.url())));
  }

  @Test
  void the_applications_own_client_is_used() {
    try (RaindropClient own = RaindropClient.builder().url(service.url()).build()) {
      application()
          .withBean("own", RaindropClient.class, () -> own)
          .run(context -> assertThat(context.getBean(RaindropClient.class)).isSameAs(own));
    }
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "raindrop.urls=                 | raindrop.urls is missing",
        "raindrop.urls=http://a,b       | raindrop.urls[1]: url: must be http",
        "raindrop.urls=http://a_b       | raindrop.urls[0]: url = \"http://a_b\": must have a host",
        "raindrop.token=                | raindrop.token: the token is missing or empty",
        "raindrop.token=secret\u00e9    | raindrop.token: the token is missing or empty",
        "raindrop.urls=http://u:secret@a | raindrop.urls[0]: url: must be http",
        "raindrop.min-range=0           | raindrop.min-range = 0: must be 1 to raindrop.max-range,"
            + " which is 100000",
        "raindrop.max-range=0           | raindrop.min-range = 1: must be 1 to raindrop.max-range,"
            + " which is 0",
        "raindrop.target=0s             | raindrop.target: target = PT0S: must be longer than 0",
        "raindrop.max-age=-1s           | raindrop.max-age: maxAge = PT-1S",
        "raindrop.request-timeout=0     | raindrop.request-timeout: requestTimeout = PT0S",
        "raindrop.deadline=soon         | raindrop.deadline",
        "raindrop.max-range=many        | raindrop.max-range"
      })
  void errors_name_the_property(String property, String message) {
    application()
        .withPropertyValues("raindrop.token=secret", property)
        .run(
            context -> {
              StringBuilder messages = new StringBuilder();
              for (Throwable cause = context.getStartupFailure();
                  cause != null;
                  cause = cause.getCause()) {
                messages.append(cause.getMessage()).append('\n');
              }
              assertThat(messages).contains(message).doesNotContain("secret");
            });
  }

  @Test
  void health_says_why_a_refill_failed_and_recovers_without_calls() throws Exception {
    try (Service restarted = new Service()) {
      application()
          .withPropertyValues("raindrop.urls=" + restarted.url(), "raindrop.max-age=1s")
          .run(
              context -> {
                RaindropClient client = context.getBean(RaindropClient.class);
                assertThat(health(context)).startsWith("UP");
                client.next("order");
                assertThat(health(context)).startsWith("UP");
                restarted.stop();
                assertThatThrownBy(
                        () -> {
                          while (true) {
                            client.next("order");
                          }
                        })
                    .isInstanceOf(RaindropException.class);
                assertThat(health(context))
                    .startsWith("DOWN")
                    .contains("order=TRANSPORT: no whole answer");
                restarted.start();
                for (int i = 0; i < 300 && !health(context).startsWith("UP"); i++) {
                  Thread.sleep(100);
                }
                assertThat(health(context)).startsWith("UP");
              });
    }
  }

  @Test
  void health_can_be_switched_off() {
    application()
        .withPropertyValues("management.health.raindrop.enabled=false")
        .run(context -> assertThat(context).doesNotHaveBean("raindropHealthIndicator"));
  }

  @Test
  void meters_count_what_the_client_does() {
    application()
        .withBean(SimpleMeterRegistry.class)
        .withPropertyValues("raindrop.min-range=7")
        .run(
            context -> {
              RaindropClient client = context.getBean(RaindropClient.class);
              SimpleMeterRegistry meters = context.getBean(SimpleMeterRegistry.class);
              client.next("order");
              assertThat(
                      meters
                          .get("raindrop.requests")
                          .tags("code", "order", "outcome", "success")
                          .timer()
                          .count())
                  .isOne();
              assertThat(meters.get("raindrop.ids.fetched").tag("code", "order").counter().count())
                  .isBetween(1.0, 7.0);
              assertThat(meters.get("raindrop.waits").tag("code", "order").timer().count()).isOne();
            });
  }

  @Test
  void meters_count_failures_by_their_reason() {
    application()
        .withBean(SimpleMeterRegistry.class)
        .withPropertyValues("raindrop.namespace=unknown")
        .run(
            context -> {
              assertThatThrownBy(() -> context.getBean(RaindropClient.class).next("order"))
                  .isInstanceOf(RaindropException.Problem.class);
              assertThat(
                      context
                          .getBean(SimpleMeterRegistry.class)
                          .get("raindrop.requests")
                          .tags("code", "order", "outcome", "unknown_namespace")
                          .timer()
                          .count())
                  .isPositive();
            });
  }

  // Of health, the classes of the other Boot are missing in every test, and all in the replay.
  @Test
  void works_without_micrometer() {
    application()
        .withClassLoader(new FilteredClassLoader("io.micrometer"))
        .run(
            context -> {
              assertThat(context.getBean(RaindropClient.class).next("order")).isPositive();
              assertThat(context).doesNotHaveBean("raindropMeters");
            });
  }

  @Test
  void a_hook_that_throws_costs_no_id_and_no_event_of_others() {
    RaindropMetrics broken =
        new RaindropMetrics() {
          @Override
          public void requestFinished(Request request, long ids) {
            throw new NoClassDefFoundError("broken hook");
          }
        };
    application()
        .withBean("broken", RaindropMetrics.class, () -> broken)
        .withBean(SimpleMeterRegistry.class)
        .run(
            context -> {
              assertThat(context.getBean(RaindropClient.class).next("order")).isPositive();
              assertThat(
                      context
                          .getBean(SimpleMeterRegistry.class)
                          .get("raindrop.requests")
                          .tags("code", "order", "outcome", "success")
                          .timer()
                          .count())
                  .isPositive();
            });
  }

  @Test
  void customizers_and_hooks_of_the_application_are_used() {
    int[] calls = new int[2];
    RaindropMetrics hook =
        new RaindropMetrics() {
          @Override
          public void waited(String code, Duration duration, RaindropException error) {
            calls[0]++;
          }
        };
    application()
        .withBean("hook", RaindropMetrics.class, () -> hook)
        .withBean(
            RaindropCustomizer.class,
            // So many that one ID does not start another refill.
            () -> builder -> builder.minRange(1_000).token(() -> "token-" + ++calls[1]))
        .run(context -> context.getBean(RaindropClient.class).next("order"));
    assertThat(List.of(calls[0], calls[1])).isEqualTo(List.of(1, 1));
  }
}
