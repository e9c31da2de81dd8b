package org.example.raindrop.mybatisplus;

import com.baomidou.mybatisplus.core.incrementer.IdentifierGenerator;
import com.baomidou.mybatisplus.core.metadata.TableInfo;
import com.baomidou.mybatisplus.core.metadata.TableInfoHelper;
import java.util.Set;
import java.util.function.Function;
import org.example.raindrop.Code;
import org.example.raindrop.RaindropClient;

/** Gives entities IDs of Raindrop, for {@code IdType.ASSIGN_ID} and {@code IdType.ASSIGN_UUID}. */
public final class RaindropIdentifierGenerator implements IdentifierGenerator {
  private static final Set<Class<?>> SMALL =
      Set.of(
          byte.class,
          Byte.class,
          short.class,
          Short.class,
          int.class,
          Integer.class,
          float.class,
          Float.class,
          double.class,
          Double.class);

  private final RaindropClient client;
  private final Function<Class<?>, String> codeOf;

  /**
   * Draws from the code that the entity's {@link RaindropCode} names, or else from {@code
   * defaultCode}.
   */
  public RaindropIdentifierGenerator(RaindropClient client, String defaultCode) {
    this(
        client,
        entity -> {
          RaindropCode code = entity.getAnnotation(RaindropCode.class);
          return code == null ? defaultCode : code.value();
        });
  }

  /**
   * Draws from the code that {@code codeOf} returns for the class of the entity. {@code IdWorker}
   * names no entity; it gets the code of {@code Object.class}.
   */
  public RaindropIdentifierGenerator(RaindropClient client, Function<Class<?>, String> codeOf) {
    this.client = client;
    this.codeOf = codeOf;
  }

  /** Returns whether the key is missing, as that of a primitive {@code long} is while it is 0. */
  @Override
  public boolean assignId(Object idValue) {
    return IdentifierGenerator.super.assignId(idValue)
        || idValue instanceof Number number && number.longValue() == 0;
  }

  /**
   * Returns the next ID of the entity's code. Refuses an entity whose key would hold only a part of
   * it.
   */
  @Override
  public Long nextId(Object entity) {
    TableInfo table = entity == null ? null : TableInfoHelper.getTableInfo(entity.getClass());
    if (table != null && SMALL.contains(table.getKeyType())) {
      throw new IllegalStateException(
          "the key of "
              + entity.getClass().getName()
              + " is of the type "
              + table.getKeyType().getName()
              + ", which cannot hold an ID: use long, Long or String");
    }
    return code(entity).next();
  }

  /**
   * Returns the text of the next ID, with the code's prefix. It is not a UUID, and is unique as the
   * ID is.
   */
  @Override
  public String nextUUID(Object entity) {
    return code(entity).nextText();
  }

  private Code code(Object entity) {
    Class<?> type = entity == null ? Object.class : entity.getClass();
    String name = codeOf.apply(type);
    if (name == null) {
      throw new IllegalStateException(
          "no code for the IDs of "
              + type.getName()
              + ": annotate it with @RaindropCode, or set raindrop.mybatis-plus.code");
    }
    return client.code(name);
  }
}
