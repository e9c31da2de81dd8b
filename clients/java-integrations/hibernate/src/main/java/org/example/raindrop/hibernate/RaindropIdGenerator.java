package org.example.raindrop.hibernate;

import java.lang.reflect.Member;
import java.util.EnumSet;
import java.util.Set;
import java.util.UUID;
import org.example.raindrop.Code;
import org.example.raindrop.RaindropClient;
import org.hibernate.MappingException;
import org.hibernate.engine.config.spi.ConfigurationService;
import org.hibernate.engine.spi.SharedSessionContractImplementor;
import org.hibernate.generator.AnnotationBasedGenerator;
import org.hibernate.generator.BeforeExecutionGenerator;
import org.hibernate.generator.EventType;
import org.hibernate.generator.EventTypeSets;
import org.hibernate.generator.GeneratorCreationContext;

/** Draws the IDs of {@link RaindropId}. Hibernate makes one for each annotated attribute. */
public final class RaindropIdGenerator
    implements BeforeExecutionGenerator, AnnotationBasedGenerator<RaindropId> {
  private transient Code code;
  private Class<?> type;

  @Override
  public void initialize(RaindropId annotation, Member member, GeneratorCreationContext context) {
    String attribute = member.getDeclaringClass().getName() + "." + context.getProperty().getName();
    Object client =
        context
            .getServiceRegistry()
            .requireService(ConfigurationService.class)
            .getSettings()
            .get(RaindropId.CLIENT);
    if (!(client instanceof RaindropClient)) {
      throw new MappingException(
          "@RaindropId of "
              + attribute
              + ": set the property "
              + RaindropId.CLIENT
              + " of Hibernate to a RaindropClient");
    }
    type = context.getProperty().getType().getReturnedClass();
    if (!Set.of(long.class, Long.class, String.class, UUID.class).contains(type)) {
      throw new MappingException(
          "@RaindropId of "
              + attribute
              + ": an ID is a long, Long, String or UUID, not a "
              + type.getName());
    }
    code = ((RaindropClient) client).code(annotation.value());
  }

  @Override
  public Object generate(
      SharedSessionContractImplementor session, Object owner, Object current, EventType event) {
    // The application may have assigned it.
    if (current != null && !current.equals(0L)) {
      return current;
    }
    if (type == UUID.class) {
      return code.nextUuid();
    }
    return type == String.class ? code.nextText() : (Object) code.next();
  }

  /**
   * Lets {@code persist}, {@code merge} and inserts keep an identifier that the application
   * assigned.
   */
  @Override
  public boolean allowAssignedIdentifiers() {
    return true;
  }

  @Override
  public EnumSet<EventType> getEventTypes() {
    return EventTypeSets.INSERT_ONLY;
  }
}
