package org.example.raindrop;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Reads JSON strictly (RFC 8259): objects as maps, arrays as lists, numbers as {@link BigDecimal}
 * so that no digit is lost. Refuses duplicate names, nesting deeper than {@link #MAX_DEPTH}, and
 * malformed UTF-8.
 */
final class Json {
  private static final int MAX_DEPTH = 32;

  /** White space and a token. The last one, at the end of the text, is empty. */
  private static final Pattern TOKEN =
      Pattern.compile(
          "[ \t\r\n]*+(\\z|[{}\\[\\]:,]|true|false|null"
              + "|\"(?:[^\"\\\\\\x00-\\x1f]++|\\\\(?:[\"\\\\/bfnrt]|u[0-9a-fA-F]{4}))*+\""
              + "|-?(?:0|[1-9][0-9]{0,30})(?:\\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,4})?)");

  private static final Pattern ESCAPE = Pattern.compile("\\\\(u....|.)");

  private final Matcher tokens;
  private String token;

  private Json(String text) {
    tokens = TOKEN.matcher(text);
    advance();
  }

  /**
   * Returns the value. Throws {@link IllegalArgumentException} if the bytes are not one JSON value.
   */
  static Object parse(byte[] bytes) {
    String text = new String(bytes, StandardCharsets.UTF_8);
    Json json = new Json(text);
    json.require(text.indexOf('\ufffd') < 0); // It replaces what is malformed.
    Object value = json.value(0);
    json.require(json.token.isEmpty());
    return value;
  }

  private Object value(int depth) {
    require(depth <= MAX_DEPTH && !token.isEmpty());
    String read = advance();
    switch (read.charAt(0)) {
      case '{':
        Map<String, Object> fields = new HashMap<>();
        items(
            "}",
            () -> {
              require(token.startsWith("\""));
              String name = unquote(advance());
              require(skip(":") && !fields.containsKey(name));
              fields.put(name, value(depth + 1));
            });
        return fields;
      case '[':
        List<Object> items = new ArrayList<>();
        items("]", () -> items.add(value(depth + 1)));
        return items;
      case '"':
        return unquote(read);
      case 't', 'f':
        return Boolean.valueOf(read);
      case 'n':
        return null;
      default:
        return new BigDecimal(read); // Of all else that is a token, it takes numbers only.
    }
  }

  private void items(String close, Runnable item) {
    if (skip(close)) return;
    do item.run();
    while (skip(","));
    require(skip(close));
  }

  private static String unquote(String quoted) {
    return ESCAPE
        .matcher(quoted.substring(1, quoted.length() - 1))
        .replaceAll(
            escape -> {
              String name = escape.group(1);
              return Matcher.quoteReplacement(
                  String.valueOf(
                      name.length() > 1
                          ? (char) Integer.parseInt(name.substring(1), 16)
                          : "\"\\/\b\f\n\r\t".charAt("\"\\/bfnrt".indexOf(name))));
            });
  }

  private boolean skip(String expected) {
    boolean found = token.equals(expected);
    if (found) advance();
    return found;
  }

  /** Returns the token, and reads the next one. */
  private String advance() {
    String read = token;
    require(tokens.lookingAt());
    token = tokens.group(1);
    tokens.region(tokens.end(), tokens.regionEnd());
    return read;
  }

  private void require(boolean holds) {
    if (!holds)
      throw new IllegalArgumentException(
          "malformed JSON before character " + (tokens.regionStart() + 1));
  }
}
