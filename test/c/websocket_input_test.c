/*
 * The plain C test of a WebSocket's input: frames whole and cut at each byte, limits, memory, the
 * mask, and UTF-8 against a table.
 */
#include "check.h"
#include "websocket_exercise.h"

static uint8_t stream[1 << 20];
static size_t written;

/* A client's frame. */
static void put(unsigned first, const void *payload, size_t length) {
  static const uint8_t mask[4] = {0x37, 0xfa, 0x21, 0x3d};
  uint8_t head[10];
  size_t size = gyre_websocket_frame_head(head, 0, false, length);
  head[0] = (uint8_t)first;
  head[1] |= 0x80;
  memcpy(stream + written, head, size);
  memcpy(stream + written + size, mask, 4);
  written += size + 4;
  for (size_t i = 0; i < length; i++) stream[written + i] = ((const uint8_t *)payload)[i] ^ mask[i & 3];
  written += length;
}

static void text(unsigned first, const char *payload) { put(first, payload, strlen(payload)); }

static void start(void) { written = 0; }

/* In every size of pieces. */
static void expect(const char *expected) {
  for (size_t piece = 1; piece <= written; piece += 1 + piece / 8) {
    struct heard heard = hear(stream, written, piece, 65536, PLAIN);
    CHECK(heard.length == strlen(expected) && memcmp(heard.text, expected, heard.length) == 0);
    free(heard.text);
  }
}

static void messages_come_whole(void) {
  start();
  text(0x81, "Hello");
  text(0x82, "");
  text(0x89, "ping");
  text(0x8a, "");
  expect("message 1 5 Hello\nmessage 2 0 \ncontrol 9 4 ping\ncontrol 10 0 \n");
}

static void fragments_are_put_together_around_control_frames(void) {
  start();
  text(0x01, "Hel");
  text(0x89, "between");
  text(0x00, "");
  text(0x80, "lo");
  text(0x81, "next");
  expect("control 9 7 between\nmessage 1 5 Hello\nmessage 1 4 next\n");
}

static void lengths_have_three_forms(void) {
  static char payload[70000];
  static const size_t lengths[] = {125, 126, 127, 65535, 65536};
  memset(payload, 'x', sizeof(payload));
  for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
    start();
    put(0x82, payload, lengths[i]);
    for (size_t piece = 4093; piece <= written + 4093; piece += written) {
      struct heard heard = hear(stream, written, piece, 65536, PLAIN);
      CHECK(heard.length > lengths[i] && memcmp(heard.text + heard.length - 1 - lengths[i], payload, lengths[i]) == 0);
      free(heard.text);
    }
  }
}

static void faults_end_it(void) {
  static const struct {
    const char *bytes;
    size_t length;
    const char *expected;
  } faults[] = {
      {"\x81\x01x", 3, "broken 1002 0 \n"},        /* not masked */
      {"\xc1\x80\0\0\0\0", 6, "broken 1002 0 \n"}, /* compressed without agreement */
      {"\x91\x80\0\0\0\0", 6, "broken 1002 0 \n"}, /* reserved bits */
      {"\x83\x80\0\0\0\0", 6, "broken 1002 0 \n"}, /* unknown opcodes */
      {"\x8b\x80\0\0\0\0", 6, "broken 1002 0 \n"},
      {"\x09\x80\0\0\0\0", 6, "broken 1002 0 \n"},                  /* a fragmented ping */
      {"\x89\xfe\0\x7e\0\0\0\0", 8, "broken 1002 0 \n"},            /* a long ping */
      {"\x80\x80\0\0\0\0", 6, "broken 1002 0 \n"},                  /* nothing to continue */
      {"\x01\x80\0\0\0\0\x81\x80\0\0\0\0", 12, "broken 1002 0 \n"}, /* a message in another one */
      {"\x82\xfe\0\x7d\0\0\0\0", 8, "broken 1002 0 \n"},            /* lengths that are not minimal */
      {"\x82\xff\0\0\0\0\0\0\xff\xff\0\0\0\0", 14, "broken 1002 0 \n"},
      {"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", 14, "broken 1002 0 \n"},
      {"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", 14, "broken 1009 0 \n"},
      {"\x82\xff\0\0\0\0\0\1\0\1\0\0\0\0", 14, "broken 1009 0 \n"}, /* a byte too many */
      {"\x81\x81\0\0\0\0\xff", 7, "broken 1007 0 \n"},
      {"\x01\x81\0\0\0\0\xe2\x80\x80\0\0\0\0", 13, "broken 1007 0 \n"}, /* ends within a character */
      {"\x88\x80\0\0\0\0", 6, "closed 1005 0 \n"},
      {"\x88\x81\0\0\0\0\x03", 7, "broken 1002 0 \n"},
      {"\x88\x82\0\0\0\0\x03\xe8", 8, "closed 1000 0 \n"},
      {"\x88\x84\0\0\0\0\x03\xe8ok", 10, "closed 1000 2 ok\n"},
      {"\x88\x82\0\0\0\0\x03\xed", 8, "broken 1002 0 \n"}, /* 1005 */
      {"\x88\x83\0\0\0\0\x03\xe8\xff", 9, "broken 1007 0 \n"},
      {"\x88\x83\0\0\0\0\x03\xe8\xc3", 9, "broken 1007 0 \n"},
  };
  for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
    start();
    memcpy(stream, faults[i].bytes, written = faults[i].length);
    expect(faults[i].expected);
  }
}

static void a_long_message_of_fragments_is_refused_with_its_first_byte_too_many(void) {
  static char payload[40000];
  start();
  put(0x02, payload, 40000);
  put(0x00, payload, 25536);
  put(0x80, payload, 1);
  struct heard heard = hear(stream, written, 1000, 65536, PLAIN);
  CHECK(heard.length == 15 && memcmp(heard.text, "broken 1009 0 \n", 15) == 0);
  CHECK(heard.most_held <= 65536 + 1000);
  free(heard.text);
}

static void heads_and_pings_take_no_memory(void) {
  start();
  text(0x01, "a");
  for (int i = 0; i < 5000; i++) text(0x89, "a ping of some length");
  for (int i = 0; i < 5000; i++) text(0x00, "");
  struct heard heard = hear(stream, written, 700, 65536, PLAIN);
  CHECK(heard.most_held < 160);
  CHECK(!heard.ended);
  free(heard.text);
}

static void expect_compressed(enum compressing compressing, uint32_t limit, const char *expected) {
  for (size_t piece = 1; piece <= written; piece++) {
    struct heard heard = hear(stream, written, piece, limit, compressing);
    CHECK(heard.length == strlen(expected) && memcmp(heard.text, expected, heard.length) == 0);
    free(heard.text);
  }
}

/* RFC 7692, section 7.2.3. */
static void compressed_messages_are_inflated(void) {
  start();
  put(0x41, "\xf2\x48\xcd", 3);
  put(0x80, "\xc9\xc9\x07\x00", 4);
  put(0xc2, "\x00\x05\x00\xfa\xffHello", 11);                        /* not compressed */
  put(0xc1, "\xf3\x48\xcd\xc9\xc9\x07\x00\x00", 8);                  /* a final block */
  put(0xc1, "\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07", 13); /* two blocks */
  put(0xc1, "", 1);                                                  /* the empty message */
  put(0x81, "plain", 5);
  expect_compressed(ALONE, 16,
                    "inflated 1 5 Hello\ninflated 2 5 Hello\ninflated 1 5 Hello\ninflated 1 5 Hello\ninflated 1 0 \n"
                    "message 1 5 plain\n");
}

static void a_context_is_kept_over_messages_and_final_blocks(void) {
  start();
  put(0xc1, "\xf2\x48\xcd\xc9\xc9\x07", 7);
  put(0xc1, "\xf2\x00\x11\x00", 5);
  put(0xc1, "\xf3\x00\x11\x00", 5);
  put(0xc1, "\xf2\x00\x11\x00", 5);
  expect_compressed(IN_CONTEXT, 16, "inflated 1 5 Hello\ninflated 1 5 Hello\ninflated 1 5 Hello\ninflated 1 5 Hello\n");
  expect_compressed(ALONE, 16, "inflated 1 5 Hello\nbroken 1007 0 \n");
}

static void wrong_compression_ends_it(void) {
  static const struct {
    const char *bytes;
    size_t length;
    const char *expected;
  } faults[] = {
      {"\xf2\x48\xcd\xc9\xc9\x07\x00", 7, "broken 1009 0 \n"}, /* a byte too many for a limit of 4 */
      {"\xff\xfe\xfd", 3, "broken 1007 0 \n"},
      {"\xf2\x48\xcd", 3, "broken 1007 0 \n"}, /* truncated */
      {"", 0, "broken 1007 0 \n"},
      {"\x00\x02\x00\xfd\xff\xc3\x28\x00", 8, "broken 1007 0 \n"}, /* not UTF-8 */
      {"\x00\x01\x00\xfe\xff\xc3\x00", 7, "broken 1007 0 \n"},
  };
  for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
    start();
    put(0xc1, faults[i].bytes, faults[i].length);
    expect_compressed(ALONE, i ? 16 : 4, faults[i].expected);
    expect_compressed(IN_CONTEXT, i ? 16 : 4, faults[i].expected);
  }
}

static void a_compressed_frame_has_its_place(void) {
  static const uint8_t firsts[] = {0xc0, 0xc8, 0xc9, 0xca, 0xe1, 0xd1};
  for (size_t i = 0; i < sizeof(firsts); i++) {
    start();
    put(0x41, "\x00", 1);
    put(firsts[i], "", 0);
    expect_compressed(ALONE, 16, "broken 1002 0 \n");
  }
}

/* Both ways, in all windows, with and without a context. */
static void messages_survive_compression(void) {
  static char message[100000], compressed[sizeof(message)], inflated[sizeof(message)];
  uint32_t random = 1;
  for (unsigned bits = 9; bits <= 15; bits++) {
    for (unsigned keeps = 0; keeps < 2; keeps++) {
      struct gyre_websocket_compression here = {.sent_bits = (uint8_t)bits, .sent_keeps = keeps};
      struct gyre_websocket_compression there = {.received_bits = (uint8_t)bits, .received_keeps = keeps};
      for (size_t length = 1; length < sizeof(message); length = 3 * length + bits) {
        unsigned symbols = length % 2 ? 7 : 256; /* the others do not get shorter */
        for (size_t i = 0; i < length; i++) message[i] = (char)((random = random * 1103515245 + 12345) >> 16) % symbols;
        size_t size = gyre_websocket_deflate(&here, message, length, compressed);
        CHECK(size < length && (size || symbols == 256 || length < 40));
        if (!size) continue;
        struct gyre_websocket_inflation inflation = {.left = (uint32_t)length};
        CHECK(gyre_websocket_inflate_begin(&inflation, &there, compressed, (uint32_t)size));
        CHECK(gyre_websocket_inflate(&inflation, inflated, sizeof(inflated)) == (int)length);
        CHECK(gyre_websocket_inflate(&inflation, inflated + length, 1) == 0);
        CHECK(memcmp(message, inflated, length) == 0);
      }
      gyre_websocket_deflate_free(&here);
      gyre_websocket_deflate_free(&there);
    }
  }
}

static bool is_utf8(const char *bytes, size_t length, size_t cut) {
  struct gyre_utf8 utf8 = {0};
  return gyre_utf8_check(&utf8, (const uint8_t *)bytes, cut) &&
         gyre_utf8_check(&utf8, (const uint8_t *)bytes + cut, length - cut) && gyre_utf8_is_whole(&utf8);
}

static void utf8_is_checked_at_each_cut(void) {
  static const struct {
    const char *bytes;
    bool valid;
  } cases[] = {
      {"", true},
      {"plain text that is longer than eight bytes", true},
      {"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5", true},
      {"\xc2\x80", true},
      {"\xdf\xbf", true},
      {"\xe0\xa0\x80", true},
      {"\xed\x9f\xbf", true},
      {"\xee\x80\x80", true},
      {"\xef\xbf\xbf", true},
      {"\xf0\x90\x80\x80", true},
      {"\xf4\x8f\xbf\xbf", true},
      {"\x80", false},
      {"\xbf", false},
      {"\xc0\xaf", false},
      {"\xc1\xbf", false},
      {"\xe0\x9f\xbf", false},
      {"\xed\xa0\x80", false},
      {"\xed\xbf\xbf", false},
      {"\xf0\x8f\xbf\xbf", false},
      {"\xf4\x90\x80\x80", false},
      {"\xf5\x80\x80\x80", false},
      {"\xfe", false},
      {"\xff", false},
      {"eight byt\xe2\x82", false},
      {"eight byt\xe2\x28\xa1", false},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    size_t length = strlen(cases[i].bytes);
    for (size_t cut = 0; cut <= length; cut++) CHECK(is_utf8(cases[i].bytes, length, cut) == cases[i].valid);
  }
}

/* Every character, and every surrogate. */
static void utf8_of_all_characters(void) {
  unsigned wrong = 0;
  for (uint32_t c = 0x80; c <= 0x10ffff; c++) {
    char bytes[4];
    size_t length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    uint32_t left = c;
    for (size_t i = length - 1; i > 0; i--, left >>= 6) bytes[i] = (char)(0x80 | (left & 0x3f));
    bytes[0] = (char)((length == 2 ? 0xc0 : length == 3 ? 0xe0 : 0xf0) | left);
    wrong += is_utf8(bytes, length, 1) != (c < 0xd800 || c > 0xdfff);
  }
  CHECK(wrong == 0);
}

static void the_mask_may_begin_anywhere(void) {
  static const uint8_t mask[4] = {1, 20, 77, 255};
  char bytes[64];
  for (unsigned place = 0; place < 9; place++) {
    for (size_t length = 0; length <= sizeof(bytes); length++) {
      memset(bytes, 0, sizeof(bytes));
      gyre_websocket_unmask(bytes, length, mask, place);
      bool right = true;
      for (size_t i = 0; i < sizeof(bytes); i++) right &= (uint8_t)bytes[i] == (i < length ? mask[(place + i) & 3] : 0);
      CHECK(right);
    }
  }
}

int main(void) {
  messages_come_whole();
  fragments_are_put_together_around_control_frames();
  lengths_have_three_forms();
  faults_end_it();
  a_long_message_of_fragments_is_refused_with_its_first_byte_too_many();
  heads_and_pings_take_no_memory();
  compressed_messages_are_inflated();
  a_context_is_kept_over_messages_and_final_blocks();
  wrong_compression_ends_it();
  a_compressed_frame_has_its_place();
  messages_survive_compression();
  utf8_is_checked_at_each_cut();
  utf8_of_all_characters();
  the_mask_may_begin_anywhere();
  return check_summary();
}
