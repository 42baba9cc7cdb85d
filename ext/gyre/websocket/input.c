/* Parses received frames (input.h). */
#include "websocket/input.h"

#define FRAMES_LIMIT 100000 /* maximum frames of a message: empty frames take time, but no memory */

struct head {
  uint64_t length; /* of the payload */
  uint8_t opcode, bytes, mask[4];
  bool final, compressed, reserved, masked, minimal;
};

/* Returns false if the head is incomplete. */
static bool parse_head(struct head *head, const uint8_t *bytes, uint32_t available) {
  if (available < 2) return false;
  unsigned short_length = bytes[1] & 0x7f;
  unsigned extended = short_length < 126 ? 0 : short_length == 126 ? 2 : 8;
  *head = (struct head){.length = short_length,
                        .opcode = bytes[0] & 0x0f,
                        .bytes = (uint8_t)(2 + extended + (bytes[1] & 0x80 ? 4 : 0)),
                        .final = bytes[0] & 0x80,
                        .compressed = bytes[0] & 0x40,
                        .reserved = bytes[0] & 0x30,
                        .masked = bytes[1] & 0x80,
                        .minimal = true};
  if (available < head->bytes) return false;
  if (extended) {
    head->length = 0;
    for (unsigned i = 0; i < extended; i++) head->length = head->length << 8 | bytes[2 + i];
    head->minimal = head->length >= (extended == 2 ? 126 : UINT64_C(65536));
  }
  if (head->masked) memcpy(head->mask, bytes + 2 + extended, 4);
  return true;
}

static struct gyre_websocket_event broken(uint16_t code, const char *reason) {
  return (struct gyre_websocket_event){
      .kind = GYRE_WEBSOCKET_BROKEN, .code = code, .payload = reason, .length = (uint32_t)strlen(reason)};
}

static struct gyre_websocket_event incomplete(void) {
  return (struct gyre_websocket_event){.kind = GYRE_WEBSOCKET_INCOMPLETE};
}

/* Returns the fault of a head, or NULL. */
static const char *fault_of(const struct gyre_websocket_input *input, const struct head *head) {
  bool control = head->opcode & 8;
  if (head->masked == input->client)
    return input->client ? "a server's frame is masked" : "a client's frame is not masked";
  if (head->reserved) return "a reserved bit is set";
  if (!head->minimal || head->length >> 63) return "a frame's length is malformed";
  if (control && head->opcode > GYRE_WEBSOCKET_PONG) return "a control frame has an unknown opcode";
  if (control && !head->final) return "a control frame is fragmented";
  if (control && head->length > GYRE_WEBSOCKET_CONTROL_BYTES) return "a control frame is too long";
  if (!control && head->opcode > GYRE_WEBSOCKET_BINARY) return "a frame has an unknown opcode";
  if (!control && !head->opcode && !input->opcode) return "a continuation has no message to continue";
  if (!control && head->opcode && input->opcode) return "a message begins inside of another one";
  if (head->compressed && (!input->may_compress || control || !head->opcode))
    return "a frame is compressed out of place";
  return NULL;
}

/* Parses the payload of a close (section 5.5.1). */
static struct gyre_websocket_event closed(const char *payload, uint32_t length) {
  const uint8_t *bytes = (const uint8_t *)payload;
  struct gyre_utf8 utf8 = {0};
  if (length == 0) return (struct gyre_websocket_event){.kind = GYRE_WEBSOCKET_CLOSED, .code = GYRE_WEBSOCKET_NO_CODE};
  unsigned code = length > 1 ? (unsigned)(bytes[0] << 8 | bytes[1]) : 0;
  if (!gyre_websocket_code_is_valid(code)) return broken(GYRE_WEBSOCKET_PROTOCOL_ERROR, "the close has no valid code");
  if (!gyre_utf8_check(&utf8, bytes + 2, length - 2) || !gyre_utf8_is_whole(&utf8))
    return broken(GYRE_WEBSOCKET_NO_TEXT, "the close's reason is not UTF-8");
  return (struct gyre_websocket_event){
      .kind = GYRE_WEBSOCKET_CLOSED, .code = (uint16_t)code, .payload = payload + 2, .length = length - 2};
}

static struct gyre_websocket_event take_control(struct gyre_websocket_input *input, const struct head *head,
                                                char *bytes, uint32_t length) {
  uint32_t size = (uint32_t)head->length, from = input->next + head->bytes;
  if (length - from < size) return incomplete();
  char *payload = bytes + from;
  gyre_websocket_unmask(payload, size, head->mask, 0);
  input->next = from + size;
  if (head->opcode == GYRE_WEBSOCKET_CLOSE) return closed(payload, size);
  return (struct gyre_websocket_event){
      .kind = GYRE_WEBSOCKET_CONTROL, .opcode = head->opcode, .payload = payload, .length = size};
}

static struct gyre_websocket_event begin_frame(struct gyre_websocket_input *input, const struct head *head) {
  if (head->length > input->message_bytes - input->held)
    return broken(GYRE_WEBSOCKET_TOO_BIG, "the message is too long");
  input->next += head->bytes;
  if (head->opcode) {
    input->opcode = head->opcode;
    input->compressed = head->compressed;
    input->start = input->next;
    input->frames = 0;
  }
  if (++input->frames > FRAMES_LIMIT) return broken(GYRE_WEBSOCKET_TOO_BIG, "the message has too many frames");
  input->frame.begun = true;
  input->frame.final = head->final;
  input->frame.length = head->length;
  input->frame.taken = 0;
  memcpy(input->frame.mask, head->mask, sizeof(head->mask));
  return incomplete();
}

/* Takes received bytes of the frame's payload. Returns false if the message is not UTF-8. */
static bool take_payload(struct gyre_websocket_input *input, char *bytes, uint32_t length) {
  uint64_t missing = input->frame.length - input->frame.taken;
  uint32_t come = length - input->next, size = missing < come ? (uint32_t)missing : come;
  char *place = bytes + input->start + input->held;
  if (place != bytes + input->next) memmove(place, bytes + input->next, size);
  gyre_websocket_unmask(place, size, input->frame.mask, input->frame.taken);
  input->next += size;
  input->held += size;
  input->frame.taken += size;
  if (input->frame.taken == input->frame.length) input->frame.begun = false;
  if (input->opcode != GYRE_WEBSOCKET_TEXT || input->compressed) return true;
  bool whole = !input->frame.begun && input->frame.final;
  return gyre_utf8_check(&input->utf8, (const uint8_t *)place, size) && (!whole || gyre_utf8_is_whole(&input->utf8));
}

struct gyre_websocket_event gyre_websocket_input_next(struct gyre_websocket_input *input, char *bytes,
                                                      uint32_t length) {
  for (;;) {
    if (!input->frame.begun) {
      struct head head;
      if (!parse_head(&head, (const uint8_t *)bytes + input->next, length - input->next)) return incomplete();
      const char *fault = fault_of(input, &head);
      if (fault) return broken(GYRE_WEBSOCKET_PROTOCOL_ERROR, fault);
      if (head.opcode & 8) return take_control(input, &head, bytes, length);
      struct gyre_websocket_event event = begin_frame(input, &head);
      if (event.kind == GYRE_WEBSOCKET_BROKEN) return event;
    }
    if (!take_payload(input, bytes, length)) return broken(GYRE_WEBSOCKET_NO_TEXT, "the message is not UTF-8");
    if (input->frame.begun) return incomplete();
    if (!input->frame.final) continue;
    return (struct gyre_websocket_event){.kind = GYRE_WEBSOCKET_MESSAGE,
                                         .opcode = input->opcode,
                                         .compressed = input->compressed,
                                         .payload = bytes + input->start,
                                         .length = input->held};
  }
}

void gyre_websocket_input_taken(struct gyre_websocket_input *input) {
  input->opcode = 0;
  input->held = 0;
  input->frame.final = false;
  input->utf8 = (struct gyre_utf8){0};
}

uint32_t gyre_websocket_input_close_gap(struct gyre_websocket_input *input, char *bytes, uint32_t length) {
  uint32_t end = input->start + input->held, left = length - input->next;
  if (!input->opcode || end == input->next) return length;
  memmove(bytes + end, bytes + input->next, left);
  input->next = end;
  return end + left;
}

uint32_t gyre_websocket_input_release(struct gyre_websocket_input *input) {
  uint32_t done = input->opcode ? input->start : input->next;
  input->start -= input->opcode ? done : input->start;
  input->next -= done;
  return done;
}
