package org.example.raindrop.hibernate;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.hibernate.annotations.IdGeneratorType;

/**
 * Gives an entity's identifier the next ID of a code. A {@code long} or {@code Long} gets its number, and a
 * {@code String} its text with the code's prefix. The property {@link #CLIENT} of Hibernate holds the client.
 */
@IdGeneratorType(RaindropIdGenerator.class)
@Target({ElementType.FIELD, ElementType.METHOD})
@Retention(RetentionPolicy.RUNTIME)
public @interface RaindropId {
  /** The property of Hibernate whose value is the {@link org.example.raindrop.RaindropClient} to draw from. */
  String CLIENT = "raindrop.client";

  /** Returns the code. */
  String value();
}
