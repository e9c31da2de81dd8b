package org.example.raindrop.spring;

import org.example.raindrop.RaindropClient;

/**
 * Changes the client before it is built: for a token that rotates, or an {@code HttpClient} with
 * TLS or a proxy.
 */
@FunctionalInterface
public interface RaindropCustomizer {
  /** Changes the builder, which has the options of the properties. */
  void customize(RaindropClient.Builder builder);
}
