/* A zone in memory (zone.h): a hash table of names and all their ancestors. Names that have no
 * records are found, too, and answer NODATA (RFC 8020). */
#include "dns/zone.h"

#define CHAIN_LIMIT 16      /* maximum CNAMEs followed */
#define COMPARED_LIMIT 1000 /* maximum records compared with a new one */

struct record {
  struct record *next; /* in order of addition */
  uint16_t type, covered /* by an RRSIG */, length;
  uint32_t ttl;
  uint8_t data[];
};

struct node {
  struct node *next; /* in the same bucket */
  struct record *records, *last;
  uint32_t hash;
  bool alias, others; /* has a CNAME; has records that a CNAME excludes */
  bool cut;           /* is below the origin and has NS records */
  uint8_t name[];     /* lower-case */
};

struct gyre_dns_zone {
  struct node **buckets, **sorted;
  size_t capacity, count;
  size_t sorted_count; /* names with NSEC records */
  struct node *origin;
  unsigned labels; /* of the origin */
};

static void lower(uint8_t *to, const uint8_t *name) {
  size_t length = gyre_dns_name_length(name);
  for (size_t i = 0; i < length; i++) to[i] = gyre_dns_lower(name[i]);
}

uint32_t gyre_dns_name_hash(const uint8_t *name) {
  uint32_t hash = 2166136261u;
  for (; *name; name++) hash = (hash ^ *name) * 16777619u;
  return hash;
}

unsigned gyre_dns_label_count(const uint8_t *name) {
  unsigned count = 0;
  for (; *name; name += *name + 1) count++;
  return count;
}

/* Returns the name after its first `count` labels. */
static const uint8_t *skip(const uint8_t *name, unsigned count) {
  for (; count; count--) name += *name + 1;
  return name;
}

/* Compares labels from the right (RFC 4034, section 6.1). */
static int compare(const uint8_t *one, const uint8_t *other) {
  unsigned left = gyre_dns_label_count(one), right = gyre_dns_label_count(other);
  for (unsigned i = 1; i <= left && i <= right; i++) {
    const uint8_t *a = skip(one, left - i), *b = skip(other, right - i);
    int order = memcmp(a + 1, b + 1, *a < *b ? *a : *b);
    if (order == 0) order = *a - *b;
    if (order != 0) return order;
  }
  return (int)left - (int)right;
}

static int compare_nodes(const void *one, const void *other) {
  return compare((*(struct node *const *)one)->name, (*(struct node *const *)other)->name);
}

static struct node *find(const struct gyre_dns_zone *zone, const uint8_t *name) {
  uint32_t hash = gyre_dns_name_hash(name);
  for (struct node *node = zone->buckets[hash & (zone->capacity - 1)]; node; node = node->next)
    if (node->hash == hash && gyre_dns_name_equal(node->name, name)) return node;
  return NULL;
}

static bool grow(struct gyre_dns_zone *zone) {
  size_t capacity = zone->capacity * 2;
  struct node **buckets = calloc(capacity, sizeof(*buckets));
  if (!buckets) return false;
  for (size_t i = 0; i < zone->capacity; i++) {
    for (struct node *node = zone->buckets[i], *next; node; node = next) {
      next = node->next;
      node->next = buckets[node->hash & (capacity - 1)];
      buckets[node->hash & (capacity - 1)] = node;
    }
  }
  free(zone->buckets);
  zone->buckets = buckets;
  zone->capacity = capacity;
  return true;
}

/* Finds or makes the node and its ancestors up to the origin. */
static struct node *make(struct gyre_dns_zone *zone, const uint8_t *name) {
  struct node *node = find(zone, name);
  if (node) return node;
  if (zone->origin && !make(zone, skip(name, 1))) return NULL;
  if (zone->count == zone->capacity && !grow(zone)) return NULL;
  size_t length = gyre_dns_name_length(name);
  node = malloc(sizeof(*node) + length);
  if (!node) return NULL;
  *node = (struct node){.hash = gyre_dns_name_hash(name), .next = NULL};
  memcpy(node->name, name, length);
  struct node **bucket = &zone->buckets[node->hash & (zone->capacity - 1)];
  node->next = *bucket;
  *bucket = node;
  zone->count++;
  return node;
}

struct gyre_dns_zone *gyre_dns_zone_new(const uint8_t *origin) {
  uint8_t name[GYRE_DNS_NAME_BYTES];
  struct gyre_dns_zone *zone = calloc(1, sizeof(*zone));
  if (!zone) return NULL;
  lower(name, origin);
  zone->capacity = 16;
  zone->buckets = calloc(zone->capacity, sizeof(*zone->buckets));
  zone->labels = gyre_dns_label_count(name);
  if (zone->buckets && (zone->origin = make(zone, name))) return zone;
  gyre_dns_zone_free(zone);
  return NULL;
}

void gyre_dns_zone_free(struct gyre_dns_zone *zone) {
  for (size_t i = 0; zone->buckets && i < zone->capacity; i++) {
    for (struct node *node = zone->buckets[i], *next; node; node = next) {
      next = node->next;
      for (struct record *record = node->records, *other; record; record = other) {
        other = record->next;
        free(record);
      }
      free(node);
    }
  }
  free(zone->buckets);
  free(zone->sorted);
  free(zone);
}

const uint8_t *gyre_dns_zone_origin(const struct gyre_dns_zone *zone) { return zone->origin->name; }

static bool covers(const struct gyre_dns_zone *zone, const uint8_t *name) {
  unsigned labels = gyre_dns_label_count(name);
  return labels >= zone->labels && gyre_dns_name_equal(skip(name, labels - zone->labels), zone->origin->name);
}

static const struct record *first_of(const struct node *node, uint16_t type) {
  const struct record *record = node->records;
  while (record && record->type != type) record = record->next;
  return record;
}

/* True for types allowed beside a CNAME. */
static bool is_signature(uint16_t type) { return type == GYRE_DNS_RRSIG || type == GYRE_DNS_NSEC; }

int gyre_dns_zone_add(struct gyre_dns_zone *zone, const uint8_t *name, uint16_t type, uint32_t ttl, const uint8_t *data,
                      size_t length) {
  uint8_t owner[GYRE_DNS_NAME_BYTES];
  lower(owner, name);
  if (length > UINT16_MAX || !covers(zone, owner)) return -EINVAL;
  struct node *node = make(zone, owner);
  if (!node) return -ENOMEM;
  if (type == GYRE_DNS_SOA && node != zone->origin) return -EINVAL;

  bool alias = type == GYRE_DNS_CNAME;
  unsigned left = COMPARED_LIMIT;
  for (const struct record *other = node->records; other && left; other = other->next, left--) {
    if (other->type != type) continue;
    /* Records of a set have one TTL (RFC 2181, section 5.2): the first. */
    if (type != GYRE_DNS_RRSIG || (length >= 2 && other->covered == gyre_dns_16(data))) ttl = other->ttl;
    if (other->length == length && memcmp(other->data, data, length) == 0) return 0;
    if (alias || type == GYRE_DNS_SOA) return -EINVAL;
  }
  if (alias ? node->others : node->alias && !is_signature(type)) return -EINVAL;
  struct record *record = malloc(sizeof(*record) + length);
  if (!record) return -ENOMEM;
  *record = (struct record){.type = type, .ttl = ttl, .length = (uint16_t)length};
  if (type == GYRE_DNS_RRSIG && length >= 2) record->covered = gyre_dns_16(data);
  if (length) memcpy(record->data, data, length);
  *(node->last ? &node->last->next : &node->records) = record;
  node->last = record;
  node->alias |= alias;
  node->others |= !alias && !is_signature(type);
  if (type == GYRE_DNS_NS && node != zone->origin) node->cut = true;
  return 0;
}

int gyre_dns_zone_finish(struct gyre_dns_zone *zone) {
  if (!first_of(zone->origin, GYRE_DNS_SOA)) return -ENOENT;
  if (!first_of(zone->origin, GYRE_DNS_NSEC)) return 0;
  zone->sorted = malloc(zone->count * sizeof(*zone->sorted));
  if (!zone->sorted) return -ENOMEM;
  for (size_t i = 0; i < zone->capacity; i++)
    for (struct node *node = zone->buckets[i]; node; node = node->next)
      if (first_of(node, GYRE_DNS_NSEC)) zone->sorted[zone->sorted_count++] = node;
  qsort(zone->sorted, zone->sorted_count, sizeof(*zone->sorted), compare_nodes);
  return 0;
}

enum section { ANSWER = 1, AUTHORITY, ADDITIONAL };

/* Writes a type's records, with signatures if wanted. Returns the first record, or NULL. */
static const struct record *put_set(struct gyre_dns_lookup *lookup, enum section section, const uint8_t *owner,
                                    const struct node *node, uint16_t type) {
  const struct record *first = first_of(node, type);
  uint32_t limit_s = UINT32_MAX;
  if (first && type == GYRE_DNS_SOA && section == AUTHORITY) /* for negative caching (RFC 2308) */
    limit_s = gyre_dns_32(first->data + first->length - 4);
  for (const struct record *record = first ? node->records : NULL; record; record = record->next) {
    if (record->type != type && !(lookup->dnssec && record->type == GYRE_DNS_RRSIG && record->covered == type))
      continue;
    uint32_t ttl = record->ttl < limit_s ? record->ttl : limit_s;
    if (gyre_dns_put_record(lookup->writer, owner, record->type, GYRE_DNS_IN, ttl, record->data, record->length))
      lookup->counts[section]++;
    else if (section != ADDITIONAL || !lookup->authoritative) /* glue is necessary (RFC 9471) */
      lookup->full = true;
  }
  return first;
}

static void add_proof(struct gyre_dns_lookup *lookup, const struct node *node) {
  for (unsigned i = 0; i < lookup->proof_count; i++)
    if (lookup->proofs[i] == node) return;
  if (lookup->proof_count < GYRE_DNS_PROOFS) lookup->proofs[lookup->proof_count++] = node;
}

void gyre_dns_zone_prove(struct gyre_dns_lookup *lookup) {
  while (lookup->proven < lookup->proof_count) {
    const struct node *node = lookup->proofs[lookup->proven++];
    (void)put_set(lookup, AUTHORITY, node->name, node, GYRE_DNS_NSEC);
  }
}

static void put_nsec(struct gyre_dns_lookup *lookup, const struct node *node) {
  add_proof(lookup, node);
  gyre_dns_zone_prove(lookup);
}

/* Returns the node whose NSEC record covers the name. */
static const struct node *nsec_before(const struct gyre_dns_zone *zone, const uint8_t *name) {
  const struct node *before = zone->origin;
  size_t low = 0, high = zone->sorted_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    const struct node *node = zone->sorted[middle];
    if (compare(node->name, name) <= 0) {
      before = node;
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return before;
}

/* Puts the addresses of name servers. */
static void put_addresses(const struct gyre_dns_zone *zone, struct gyre_dns_lookup *lookup,
                          const struct record *record) {
  for (; record; record = record->next) {
    uint8_t target[GYRE_DNS_NAME_BYTES];
    if (record->type != GYRE_DNS_NS) continue;
    lower(target, record->data);
    const struct node *node = covers(zone, target) ? find(zone, target) : NULL;
    if (!node) continue;
    (void)put_set(lookup, ADDITIONAL, node->name, node, GYRE_DNS_A);
    (void)put_set(lookup, ADDITIONAL, node->name, node, GYRE_DNS_AAAA);
  }
}

static void refer(const struct gyre_dns_zone *zone, struct gyre_dns_lookup *lookup, const struct node *cut) {
  lookup->authoritative = lookup->counts[ANSWER] > 0;
  gyre_dns_zone_prove(lookup);
  const struct record *servers = put_set(lookup, AUTHORITY, cut->name, cut, GYRE_DNS_NS);
  if (lookup->dnssec && !put_set(lookup, AUTHORITY, cut->name, cut, GYRE_DNS_DS)) put_nsec(lookup, cut);
  put_addresses(zone, lookup, servers);
}

/* Returns true if a CNAME leads to another name. */
static bool answer(const struct gyre_dns_zone *zone, struct gyre_dns_lookup *lookup, const uint8_t *owner,
                   const struct node *node, bool wildcard) {
  uint16_t type = lookup->type;
  uint8_t covered[GYRE_DNS_NAME_BYTES];
  if (wildcard && lookup->dnssec && zone->sorted) {
    lower(covered, owner);
    add_proof(lookup, nsec_before(zone, covered));
  }
  if (type == GYRE_DNS_ANY) { /* one set is enough (RFC 8482, section 4.1) */
    const struct record *record = node->records;
    while (record && record->next && is_signature(record->type)) record = record->next;
    if (record) type = record->type;
  } else if (type != GYRE_DNS_CNAME && !is_signature(type)) {
    const struct record *alias = put_set(lookup, ANSWER, owner, node, GYRE_DNS_CNAME);
    if (alias) {
      lower(lookup->name, alias->data);
      return true;
    }
  }
  const struct record *found = put_set(lookup, ANSWER, owner, node, type);
  gyre_dns_zone_prove(lookup);
  if (found) {
    if (found->type == GYRE_DNS_NS) put_addresses(zone, lookup, found);
  } else {
    (void)put_set(lookup, AUTHORITY, zone->origin->name, zone->origin, GYRE_DNS_SOA);
    /* A name without records has no NSEC record: an earlier name's covers it. */
    if (lookup->dnssec && zone->sorted) put_nsec(lookup, nsec_before(zone, node->name));
  }
  return false;
}

static void deny(const struct gyre_dns_zone *zone, struct gyre_dns_lookup *lookup, const uint8_t *name,
                 const uint8_t *wildcard) {
  lookup->rcode = 3;
  gyre_dns_zone_prove(lookup);
  (void)put_set(lookup, AUTHORITY, zone->origin->name, zone->origin, GYRE_DNS_SOA);
  if (lookup->dnssec && zone->sorted) {
    put_nsec(lookup, nsec_before(zone, name));
    put_nsec(lookup, nsec_before(zone, wildcard));
  }
}

/* Walks from the origin to a cut, the name or a wildcard. True if a CNAME leads elsewhere. */
static bool look(const struct gyre_dns_zone *zone, struct gyre_dns_lookup *lookup) {
  uint8_t name[GYRE_DNS_NAME_BYTES], owner[GYRE_DNS_NAME_BYTES];
  memcpy(owner, lookup->name, gyre_dns_name_length(lookup->name));
  lower(name, owner);
  const struct node *node = zone->origin;
  for (unsigned left = gyre_dns_label_count(name) - zone->labels; left > 0; left--) {
    const uint8_t *below = skip(name, left - 1);
    const struct node *next = find(zone, below);
    if (!next) {
      uint8_t wildcard[GYRE_DNS_NAME_BYTES + 2] = "\1*";
      size_t length = gyre_dns_name_length(node->name);
      memcpy(wildcard + 2, node->name, length);
      const struct node *source = length + 2 <= GYRE_DNS_NAME_BYTES ? find(zone, wildcard) : NULL;
      if (source) return answer(zone, lookup, owner, source, true);
      deny(zone, lookup, name, wildcard);
      return false;
    }
    if (next->cut && !(left == 1 && lookup->type == GYRE_DNS_DS)) {
      refer(zone, lookup, next);
      return false;
    }
    node = next;
  }
  return answer(zone, lookup, owner, node, false);
}

bool gyre_dns_zone_lookup(const struct gyre_dns_zone *zone, struct gyre_dns_lookup *lookup) {
  uint8_t seen[CHAIN_LIMIT][GYRE_DNS_NAME_BYTES];
  lookup->authoritative = true;
  for (int i = 0; i < CHAIN_LIMIT; i++) {
    memcpy(seen[i], lookup->name, gyre_dns_name_length(lookup->name));
    if (!look(zone, lookup)) return false;
    if (!covers(zone, lookup->name)) return true;
    for (int j = 0; j <= i; j++)
      if (gyre_dns_name_equal(seen[j], lookup->name)) return false; /* a loop */
  }
  return false;
}
