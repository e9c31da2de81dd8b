package org.example.raindrop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class JsonTest {
  private static Object parse(String text) {
    return Json.parse(text.getBytes(StandardCharsets.UTF_8));
  }

  @Test
  void values_are_read_without_losing_digits() {
    assertEquals(Map.of(), parse(" {} "));
    assertEquals(
        Map.of("a", List.of(), "", Map.of("b", "c")), parse("{\"a\" : [ ] ,\"\":{\"b\":\"c\"}}\n"));
    assertEquals(Arrays.asList(true, false, null), parse("[true,false,null]"));
    assertEquals(new BigDecimal("9223372036854775807"), parse("9223372036854775807"));
    assertEquals(List.of(new BigDecimal("-0"), new BigDecimal("-1.50e-3")), parse("[-0,-1.50e-3]"));
    assertEquals(
        "\"\\/\b\f\n\r\t\u00e9\ud83d\ude00\u4e2d$1",
        parse("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\uDE00\u4e2d$1\""));
    assertEquals("\\".repeat(400_000), parse("\"" + "\\\\".repeat(400_000) + "\""));
    parse("[".repeat(32) + "]".repeat(32));
  }

  @Test
  void malformed_text_is_refused() {
    for (String text :
        List.of(
            "",
            " ",
            "{",
            "}",
            "[",
            "]",
            "{]",
            "[}",
            "[1",
            "[1,]",
            "[,1]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{1:1}",
            "{\"a\" 1}",
            "{\"a\":1,\"a\":2}",
            "1 2",
            "{}{}",
            "01",
            "1.",
            ".5",
            "+1",
            "-",
            "1e",
            "0x1",
            "1e99999",
            "1".repeat(40),
            "tru",
            "truefalse",
            "True",
            "NaN",
            "nul",
            "\"",
            "\"a",
            "\"\\\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\\u12\"",
            "\"\n\"",
            "\"\u0000\"",
            "'a'",
            "\u00a01",
            "\ufeff1",
            ":",
            ",",
            "[1:2]",
            "[".repeat(34) + "]".repeat(34),
            "[".repeat(500_000))) {
      assertThrows(IllegalArgumentException.class, () -> parse(text), text);
    }
    assertThrows(
        IllegalArgumentException.class, () -> Json.parse(new byte[] {'"', (byte) 0xc3, '"'}));
  }
}
