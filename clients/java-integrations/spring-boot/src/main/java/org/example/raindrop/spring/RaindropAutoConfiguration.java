package org.example.raindrop.spring;

import io.micrometer.core.instrument.MeterRegistry;
import java.util.Map;
import org.example.raindrop.RaindropClient;
import org.example.raindrop.RaindropMetrics;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/**
 * Makes the application's {@link RaindropClient}, unless it has one, and gives it every {@link
 * RaindropMetrics} and {@link RaindropCustomizer} among the beans. The client is closed with the
 * context.
 */
@AutoConfiguration(
    afterName = {
      "org.springframework.boot.actuate.autoconfigure.metrics.CompositeMeterRegistryAutoConfiguration",
      "org.springframework.boot.micrometer.metrics.autoconfigure.CompositeMeterRegistryAutoConfiguration"
    })
@EnableConfigurationProperties(RaindropProperties.class)
public class RaindropAutoConfiguration {
  @Bean
  @ConditionalOnMissingBean
  RaindropClient raindropClient(
      RaindropProperties properties,
      ObjectProvider<RaindropMetrics> hooks,
      ObjectProvider<RaindropCustomizer> customizers) {
    RaindropClient.Builder builder =
        properties.builder().metrics(new AllMetrics(hooks.orderedStream().toList()));
    customizers.orderedStream().forEach(customizer -> customizer.customize(builder));
    return builder.build();
  }

  @Bean
  FailedRefills raindropFailedRefills() {
    return new FailedRefills();
  }

  @Configuration(proxyBeanMethods = false)
  @ConditionalOnClass(MeterRegistry.class)
  static class Metrics {
    @Bean
    @ConditionalOnBean(MeterRegistry.class)
    Meters raindropMeters(MeterRegistry registry) {
      return new Meters(registry);
    }
  }

  @Configuration(proxyBeanMethods = false)
  @ConditionalOnClass(org.springframework.boot.actuate.health.HealthIndicator.class)
  @org.springframework.boot.actuate.autoconfigure.health.ConditionalOnEnabledHealthIndicator(
      "raindrop")
  static class Boot3Health {
    @Bean
    org.springframework.boot.actuate.health.HealthIndicator raindropHealthIndicator(
        FailedRefills failed, RaindropClient client) {
      return () -> {
        Map<String, String> reasons = failed.check(client);
        var health = org.springframework.boot.actuate.health.Health.up();
        return (reasons.isEmpty() ? health : health.down()).withDetails(reasons).build();
      };
    }
  }

  @Configuration(proxyBeanMethods = false)
  @ConditionalOnClass(org.springframework.boot.health.contributor.HealthIndicator.class)
  @org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator(
      "raindrop")
  static class Boot4Health {
    @Bean
    org.springframework.boot.health.contributor.HealthIndicator raindropHealthIndicator(
        FailedRefills failed, RaindropClient client) {
      return () -> {
        Map<String, String> reasons = failed.check(client);
        var health = org.springframework.boot.health.contributor.Health.up();
        return (reasons.isEmpty() ? health : health.down()).withDetails(reasons).build();
      };
    }
  }
}
