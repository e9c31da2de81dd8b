package org.example.raindrop.spring;

import java.time.Duration;
import java.util.List;
import java.util.function.Function;
import org.example.raindrop.RaindropClient;
import org.example.raindrop.RaindropException;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The options of the client, as properties.
 *
 * @param urls Base URLs of the service, for example https://ids.example.org. With several, the
 *     client fails over.
 * @param token Token that every request sends. For one that rotates, use a RaindropCustomizer.
 * @param namespace Namespace of all codes. By default the service chooses.
 * @param target How long a buffer should last, at most half of max-age.
 * @param minRange Fewest IDs that a request asks for.
 * @param maxRange Most IDs that a request asks for.
 * @param maxAge Age from which buffered IDs are dropped.
 * @param deadline How long a call waits while the buffer is empty.
 * @param requestTimeout How long a request may take until its answer is read: 5s by default, with
 *     several URLs half of the deadline, but 1s to 5s.
 */
@ConfigurationProperties("raindrop")
public record RaindropProperties(
    @DefaultValue List<String> urls,
    String token,
    String namespace,
    @DefaultValue("2s") Duration target,
    @DefaultValue("1") int minRange,
    @DefaultValue("100000") int maxRange,
    @DefaultValue("10s") Duration maxAge,
    @DefaultValue("2s") Duration deadline,
    Duration requestTimeout) {

  /**
   * Returns a builder with these options. Errors name the property, and quote no token and no URL
   * with a user.
   */
  public RaindropClient.Builder builder() {
    require(!urls.isEmpty(), "raindrop.urls is missing: name the base URL of the service");
    require(
        minRange >= 1 && minRange <= maxRange,
        "raindrop.min-range = "
            + minRange
            + ": must be 1 to raindrop.max-range, which is "
            + maxRange);
    RaindropClient.Builder builder =
        RaindropClient.builder().minRange(minRange).maxRange(maxRange).deadline(deadline);
    for (int i = 0; i < urls.size(); i++) {
      set("urls[" + i + "]", builder::url, urls.get(i));
    }
    set("target", builder::target, target);
    set("max-age", builder::maxAge, maxAge);
    if (requestTimeout != null) {
      set("request-timeout", builder::requestTimeout, requestTimeout);
    }
    if (token != null) {
      set("token", text -> builder.token(text), token);
    }
    if (namespace != null) {
      builder.namespace(namespace);
    }
    return builder;
  }

  private static <T> void set(String name, Function<T, RaindropClient.Builder> option, T value) {
    try {
      option.apply(value);
    } catch (RaindropException e) {
      throw new IllegalArgumentException("raindrop." + name + ": " + e.getMessage(), e);
    }
  }

  private static void require(boolean holds, String otherwise) {
    if (!holds) {
      throw new IllegalArgumentException(otherwise);
    }
  }

  /** Returns what these options are, without the token. */
  @Override
  public String toString() {
    return "RaindropProperties" + urls;
  }
}
