package org.example.raindrop.integrations;

import static org.assertj.core.api.Assertions.assertThat;

import com.baomidou.mybatisplus.core.incrementer.IdentifierGenerator;
import java.io.StringReader;
import java.net.http.HttpClient;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;
import org.example.raindrop.RaindropClient;
import org.example.raindrop.hibernate.RaindropId;
import org.example.raindrop.mybatisplus.RaindropIdentifierGenerator;
import org.example.raindrop.mybatisplus.RaindropMybatisPlusAutoConfiguration;
import org.example.raindrop.spring.RaindropAutoConfiguration;
import org.example.raindrop.spring.RaindropCustomizer;
import org.hibernate.cfg.Configuration;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.ssl.DefaultSslBundleRegistry;
import org.springframework.boot.ssl.SslBundle;
import org.springframework.boot.ssl.SslBundles;
import org.springframework.boot.ssl.SslStoreBundle;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.annotation.Bean;

/** Runs the examples of README.md. They stand here and in the entities word for word. */
class ReadmeTest {
  private static List<String> examples(String language) throws Exception {
    return Pattern.compile("```" + language + "\n(.*?)```", Pattern.DOTALL)
        .matcher(Files.readString(Path.of("../../README.md")))
        .results()
        .map(match -> match.group(1))
        .toList();
  }

  private static ApplicationContextRunner application(String url) throws Exception {
    Properties properties = new Properties();
    properties.load(new StringReader(examples("properties").get(0)));
    properties.setProperty("raindrop.urls", url);
    properties.setProperty("raindrop.deadline", "20s"); // A busy machine takes longer.
    return new ApplicationContextRunner()
        .withConfiguration(
            AutoConfigurations.of(
                RaindropAutoConfiguration.class, RaindropMybatisPlusAutoConfiguration.class))
        .withPropertyValues(
            properties.entrySet().stream()
                .map(property -> property.getKey() + "=" + property.getValue())
                .toArray(String[]::new));
  }

  @Test
  void the_examples_stand_here() throws Exception {
    StringBuilder source = new StringBuilder();
    try (var files = Files.list(Path.of("../src/test/java/org/example/raindrop/integrations"))) {
      for (Path file : files.toList()) {
        source.append(Files.readString(file).replaceAll("\\s+", " "));
      }
    }
    assertThat(examples("java")).hasSize(5);
    for (String example : examples("java")) {
      assertThat(source).contains(example.strip().replaceAll("\\s+", " "));
    }
  }

  interface Tokens {
    String current();
  }

  static class Settings {
    @Bean
    RaindropCustomizer raindropSettings(Tokens tokens, SslBundles bundles) {
      return builder ->
          builder
              .token(tokens::current)
              .httpClient(
                  HttpClient.newBuilder()
                      .version(HttpClient.Version.HTTP_1_1)
                      .sslContext(bundles.getBundle("raindrop").createSslContext())
                      .build());
    }
  }

  @Test
  void the_properties_and_a_customizer() throws Exception {
    AtomicInteger tokens = new AtomicInteger();
    try (Service service = new Service()) {
      application(service.url())
          .withUserConfiguration(Settings.class)
          .withBean(Tokens.class, () -> () -> "token-" + tokens.incrementAndGet())
          .withBean(
              SslBundles.class,
              () -> new DefaultSslBundleRegistry("raindrop", SslBundle.of(SslStoreBundle.NONE)))
          .run(
              context -> {
                assertThat(
                        context.getBean(IdentifierGenerator.class).nextId(new Parcel()).longValue())
                    .isPositive();
                assertThat(tokens.get()).isPositive();
              });
    }
  }

  static class Names {
    @Bean
    RaindropIdentifierGenerator raindropIdentifierGenerator(RaindropClient client) {
      return new RaindropIdentifierGenerator(
          client, entity -> entity.getSimpleName().toLowerCase(Locale.ROOT));
    }
  }

  @Test
  void a_rule_for_the_names_of_codes() throws Exception {
    try (Service service = new Service()) {
      application(service.url())
          .withUserConfiguration(Names.class)
          .run(
              context ->
                  assertThat(context.getBean(IdentifierGenerator.class).nextUUID(new Parcel()))
                      .startsWith("PCL-"));
    }
  }

  @Test
  void hibernate_without_spring() {
    try (RaindropClient client = RaindropClient.builder().url("http://127.0.0.1:8080").build()) {
      Configuration configuration = new Configuration().addAnnotatedClass(Invoice.class);
      configuration.getProperties().put(RaindropId.CLIENT, client);
      configuration.setProperty("hibernate.connection.url", "jdbc:h2:mem:readme");
      configuration.buildSessionFactory().close();
    }
  }
}
