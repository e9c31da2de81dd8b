package org.example.raindrop;

import java.math.BigDecimal;
import java.time.Duration;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Supplier;

/**
 * A checked answer with ranges.
 *
 * @param ids how many IDs the ranges have
 * @param time how to read an ID's time; null if the IDs have none
 */
record Answer(List<Range> ranges, long ids, Time time) {
  /**
   * {@code count} IDs from {@code first} in steps, {@code repeat} times, each time {@code stride}
   * further.
   *
   * @param prefix what precedes the text of each
   * @param ageless whether they may be used for ever, or else until the client's clock reads {@code
   *     expires}
   */
  record Range(
      long first,
      long step,
      long count,
      long repeat,
      long stride,
      String prefix,
      boolean ageless,
      long expires) {
    long ids() {
      return count * repeat;
    }

    boolean isFresh(RaindropClient client) {
      return ageless || client.clock() - expires < 0;
    }
  }

  /** Where an ID has its time. */
  record Time(long epochMs, long unitMs, int shift, long mask) {
    Instant of(long id) {
      return Instant.ofEpochMilli(epochMs + (id >>> shift & mask) * unitMs);
    }

    /**
     * Writes the instant, and then the fields below the timestamp before random bits: {@code
     * docs/clients.md} has the layout.
     *
     * @param random 64 random bits, of which the fields replace the first
     * @param last 10 more in the lowest bits
     */
    UUID uuid(long id, long random, long last) {
      long unixMs = epochMs + (id >>> shift & mask);
      // In two steps, because Java shifts by 64 bits as by none.
      long ones = -1L << 1 << (63 - shift);
      // The first 64 of the 74 bits that are free; the others are random.
      long fields = id << 1 << (63 - shift) | random & ~ones;
      long low = fields << 12 >>> 2 | last & 0x3ff;
      return new UUID(unixMs << 16 | 7 << 12 | fields >>> 52, 1L << 63 | low);
    }
  }

  /**
   * Returns the answer if all of it is sound. IDs of a layout live for {@code maxAge} from {@code
   * sent} on.
   */
  static Answer parse(byte[] body, long asked, long sent, long maxAge) {
    return checked(
        () -> {
          Map<?, ?> fields = (Map<?, ?>) Json.parse(body);
          String prefix = fields.containsKey("prefix") ? field(fields, "prefix", String.class) : "";
          boolean ageless = fields.containsKey("increment") && !fields.containsKey("layout");
          long lifetime = ageless ? Long.MAX_VALUE : maxAge;
          // It and issued_at are times of one clock, the service's.
          if (fields.containsKey("until")) {
            ageless = false;
            OffsetDateTime issued = OffsetDateTime.parse(field(fields, "issued_at", String.class));
            OffsetDateTime until = OffsetDateTime.parse(field(fields, "until", String.class));
            lifetime = Math.min(lifetime, RaindropClient.nanos(Duration.between(issued, until)));
          }
          List<Range> ranges = new ArrayList<>();
          long ids = 0;
          long end = -1;
          for (Object item : field(fields, "ranges", List.class)) {
            Map<?, ?> range = (Map<?, ?>) item;
            boolean repeats = range.containsKey("repeat") || range.containsKey("stride");
            Range read =
                new Range(
                    id(range, "first"),
                    id(range, "step"),
                    number(range, "count"),
                    repeats ? number(range, "repeat") : 1,
                    repeats ? id(range, "stride") : Long.MAX_VALUE,
                    prefix,
                    ageless,
                    sent + lifetime);
            require(
                read.step >= 1 && read.count >= 1 && read.repeat >= 1,
                "a count, step or repeat is below 1");
            long width = Math.multiplyExact(read.count - 1, read.step);
            require(read.stride > width, "the repeats of a range overlap");
            require(read.first > end, "the ranges do not ascend");
            end =
                Math.addExact(
                    read.first,
                    Math.addExact(Math.multiplyExact(read.repeat - 1, read.stride), width));
            require(
                end == id(range, "last"),
                "the last ID of a range is not the one that its fields give");
            ids = Math.addExact(ids, Math.multiplyExact(read.count, read.repeat));
            ranges.add(read);
          }
          require(
              ids >= 1 && ids <= asked, "it has " + ids + " IDs, but " + asked + " were asked for");
          return new Answer(
              ranges,
              ids,
              fields.containsKey("time") ? time(field(fields, "time", Map.class)) : null);
        });
  }

  private static Time time(Map<?, ?> fields) {
    long shift = number(fields, "shift");
    long bits = number(fields, "bits");
    require(
        shift >= 0 && bits >= 1 && shift <= 63 && bits <= 63 - shift,
        "its time has no place in an ID");
    Time time =
        new Time(
            number(fields, "epoch_ms"),
            number(fields, "unit_ms"),
            (int) shift,
            -1L >>> (64 - bits));
    require(time.unitMs >= 1, "the unit of its time is below 1");
    Math.addExact(time.epochMs, Math.multiplyExact(time.mask, time.unitMs));
    return time;
  }

  private static long id(Map<?, ?> fields, String name) {
    String text = field(fields, name, String.class);
    require(text.matches("0|[1-9][0-9]{0,18}"), name + " is not a decimal ID");
    return Long.parseLong(text);
  }

  private static long number(Map<?, ?> fields, String name) {
    return field(fields, name, BigDecimal.class).longValueExact();
  }

  static <T> T field(Map<?, ?> fields, String name, Class<T> type) {
    require(type.isInstance(fields.get(name)), name + " is missing or has another type");
    return type.cast(fields.get(name));
  }

  static void require(boolean holds, String otherwise) {
    if (!holds) throw new IllegalArgumentException(otherwise);
  }

  /**
   * Returns what a check of an answer returns. Whatever it throws means that the answer is invalid.
   */
  static <T> T checked(Supplier<T> check) {
    try {
      return check.get();
    } catch (RuntimeException e) {
      throw new RaindropException(
          RaindropException.Kind.INVALID_ANSWER, "the answer is invalid: " + e.getMessage(), e);
    }
  }
}
