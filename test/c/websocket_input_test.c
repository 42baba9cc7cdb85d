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
    struct heard heard = hear(stream, written, piece, 65536, false);
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
      struct heard heard = hear(stream, written, piece, 65536, false);
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
  struct heard heard = hear(stream, written, 1000, 65536, false);
  CHECK(strcmp(heard.text + heard.length - 15, "broken 1009 0 \n") == 0 || heard.length == 15);
  CHECK(heard.most_held <= 65536 + 1000);
  free(heard.text);
}

static void heads_and_pings_take_no_memory(void) {
  start();
  text(0x01, "a");
  for (int i = 0; i < 5000; i++) text(0x89, "a ping of some length");
  for (int i = 0; i < 5000; i++) text(0x00, "");
  struct heard heard = hear(stream, written, 700, 65536, false);
  CHECK(heard.most_held < 160);
  CHECK(!heard.ended);
  free(heard.text);
}

static void compressed_messages_are_not_checked(void) {
  start();
  put(0x41, "\xff\xfe", 2);
  put(0x80, "\xfd", 1);
  put(0xc0, "", 0);
  struct heard heard = hear(stream, written, 3, 65536, true);
  static const char expected[] = "compressed 1 3 \xff\xfe\xfd\nbroken 1002 0 \n";
  CHECK(heard.length == sizeof(expected) - 1 && memcmp(heard.text, expected, heard.length) == 0);
  free(heard.text);
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
  compressed_messages_are_not_checked();
  utf8_is_checked_at_each_cut();
  utf8_of_all_characters();
  the_mask_may_begin_anywhere();
  return check_summary();
}
