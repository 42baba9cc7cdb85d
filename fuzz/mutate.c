/*
 * A small stand-in for libFuzzer: changes inputs of a folder at random, again and again, and gives
 * them to LLVMFuzzerTestOneInput. Usage: PROGRAM FOLDER SECONDS SEED. It uses nothing of
 * coverage. The input under way is kept in FOLDER/../current, which outlives a crash; the same seed
 * gives the same inputs.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define INPUT_MAX 4096
#define INPUTS_MAX 8192

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
  uint8_t *bytes;
  size_t length;
};

static struct input inputs[INPUTS_MAX];
static size_t inputs_count;
static uint64_t random_state;

/* What HTTP/1 and the log's wires are made of, and what they trip over. */
static const char *const words[] = {
    "\r\n",
    "\n",
    "\r",
    " ",
    "\t",
    ":",
    ": ",
    ";",
    "=",
    "\"",
    "\\",
    ",",
    "?",
    "#",
    "*",
    "/",
    "//",
    "[",
    "]",
    "%",
    "%2",
    "@",
    "0",
    "1",
    "9",
    "f",
    "+",
    "-",
    "_",
    "\r\n ",
    "\r\n\r\n",
    "0\r\n",
    "GET ",
    "CONNECT ",
    "OPTIONS ",
    "POST / ",
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/2.0",
    "http://",
    "https://a:1",
    "\r\nHost: a",
    "\r\nHost: ",
    "Connection: close\r\n",
    "Connection: upgrade\r\n",
    "Upgrade: a\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: ",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: ",
    "chunked",
    "Expect: 100-continue\r\n",
    "keep-alive",
    "gzip, ",
    "4611686018427387904",
    "4000000000000000",
    "ffffffffffffffff",
    "[::1]",
    "::",
    "1.2.3.4",
    ";a=\"b\"",
    "00110011:::",
    "00190019:web:info:a",
    "8191",
    "<14>",
    "<34>1 ",
    "9 <14>a: b",
    "[a b=\"",
    "- ",
    "\xf0\x9f\x98\x80",
    "\xe2\x82",
};
#define WORDS (sizeof(words) / sizeof(*words))

/* xorshift64* */
static uint64_t next_random(void) {
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return random_state * UINT64_C(2685821657736338717);
}

static size_t below(size_t bound) { return bound == 0 ? 0 : (size_t)(next_random() >> 11) % bound; }

static void read_inputs(const char *folder) {
  DIR *const directory = opendir(folder);
  struct dirent *entry;
  if (directory == NULL) abort();
  while ((entry = readdir(directory)) != NULL && inputs_count < INPUTS_MAX) {
    char path[4096];
    FILE *file;
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
    if ((file = fopen(path, "rb")) == NULL) continue;
    inputs[inputs_count].bytes = malloc(INPUT_MAX);
    if (inputs[inputs_count].bytes == NULL) abort();
    inputs[inputs_count].length = fread(inputs[inputs_count].bytes, 1, INPUT_MAX, file);
    inputs_count++;
    fclose(file);
  }
  closedir(directory);
  if (inputs_count == 0) abort();
}

static void insert(struct input *input, size_t at, const void *bytes, size_t length) {
  if (input->length + length > INPUT_MAX) return;
  memmove(input->bytes + at + length, input->bytes + at, input->length - at);
  memcpy(input->bytes + at, bytes, length);
  input->length += length;
}

static void mutate(struct input *input) {
  const struct input *other = &inputs[below(inputs_count)];
  const size_t at = below(input->length + 1), left = input->length - at;
  const char *word = words[below(WORDS)];
  size_t length = 1 + below(below(4) ? 4 : 64);

  switch (below(9)) {
  case 0:
    if (left > 0) input->bytes[at] = (uint8_t)next_random();
    break;
  case 1:
    if (left > 0) input->bytes[at] ^= (uint8_t)(1u << below(8));
    break;
  case 2:
  case 3: insert(input, at, word, strlen(word)); break;
  case 4:
    if (left >= strlen(word)) memcpy(input->bytes + at, word, strlen(word));
    break;
  case 5:
    if (length > left) length = left;
    memmove(input->bytes + at, input->bytes + at + length, left - length);
    input->length -= length;
    break;
  case 6: {
    uint8_t piece[64];
    if (length > left) length = left;
    memcpy(piece, input->bytes + at, length);
    insert(input, below(input->length + 1), piece, length);
    break;
  }
  case 7: {
    const size_t from = below(other->length);
    if (length > other->length - from) length = other->length - from;
    insert(input, at, other->bytes + from, length);
    break;
  }
  default: {
    const uint8_t byte = (uint8_t)next_random();
    insert(input, at, &byte, 1);
    break;
  }
  }
}

int main(int count, char **arguments) {
  uint8_t *current;
  char path[4096];
  uint64_t runs = 0;
  time_t end;
  int fd;

  if (count != 4) return 2;
  read_inputs(arguments[1]);
  end = time(NULL) + atoi(arguments[2]);
  random_state = strtoull(arguments[3], NULL, 10) * 2 + 1;
  snprintf(path, sizeof(path), "%s/../current", arguments[1]);
  fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (fd < 0 || ftruncate(fd, INPUT_MAX) != 0) abort();
  current = mmap(NULL, INPUT_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (current == MAP_FAILED) abort();

  for (; time(NULL) < end; runs++) {
    uint8_t bytes[INPUT_MAX], *exact;
    struct input input = {bytes, 0};
    const struct input *seed = &inputs[below(inputs_count)];
    memcpy(bytes, seed->bytes, seed->length);
    input.length = seed->length;
    for (size_t times = 1 + below(6); times > 0; times--) mutate(&input);
    memcpy(current, bytes, input.length);
    memset(current + input.length, 0, INPUT_MAX - input.length);
    exact = malloc(input.length + 1); /* so that the sanitizer sees its end */
    if (exact == NULL) abort();
    memcpy(exact, bytes, input.length);
    LLVMFuzzerTestOneInput(exact, input.length);
    free(exact);
  }
  printf("%llu inputs, seed %s\n", (unsigned long long)runs, arguments[3]);
  return 0;
}
