package org.example.raindrop.hibernate;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.hibernate.annotations.IdGeneratorType;
import org.hibernate.annotations.ValueGenerationType;

/**
 * Gives an attribute of an entity the next ID of a code if it is null or 0 when the entity is
 * inserted; a value that is set stays. The attribute may be the identifier or another one. A {@code
 * long} or {@code Long} gets the number, a {@code String} the text with the code's prefix, and a
 * {@code java.util.UUID} a UUID of version 7. The property {@link #CLIENT} of Hibernate holds the
 * client.
 */
@IdGeneratorType(RaindropIdGenerator.class)
@ValueGenerationType(generatedBy = RaindropIdGenerator.class)
@Target({ElementType.FIELD, ElementType.METHOD})
@Retention(RetentionPolicy.RUNTIME)
public @interface RaindropId {
  /**
   * The property of Hibernate whose value is the {@link org.example.raindrop.RaindropClient} to
   * draw from.
   */
  String CLIENT = "raindrop.client";

  /** Returns the code. */
  String value();
}
