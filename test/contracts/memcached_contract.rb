# frozen_string_literal: true

# What each method of Dalli's client does, as cases that run against Gyre::Memcached::Client,
# against the same under Dalli's name, and against the dalli gem itself (in a process with its
# bundle). A class that includes this has `new_client(**options)`, `error(name)`, `gem_version`
# (nil: all methods are there) and the `address` of a memcached.

module GyreTest
  # Included by subclasses of Minitest::Test.
  module MemcachedContract
    def setup
      super
      @client = new_client
      @client.flush
    end

    def teardown
      @client&.close
      super
    end

    # --- get, set ---------------------------------------------------------------------------------

    def test_get_returns_what_was_set_or_nil
      assert_nil client.get("key")
      cas = client.set("key", "text")
      assert_kind_of Integer, cas
      assert_operator cas, :>, 0
      assert_equal "text", client.get("key")
      assert_equal "text", client.get(:key)
    end

    def test_values_come_back_as_they_were
      values = [nil, true, false, 0, -5, 2**70, 1.5, "", "text", "ü", "\xff".b, :symbol, [1, [nil, "x"]], { "a" => 1, b: [2] }, "x" * 100_000]
      values.each_with_index do |value, index|
        client.set("key#{index}", value)
        back = client.get("key#{index}")
        value.nil? ? assert_nil(back) : assert_equal(value, back)
        assert_equal value.encoding, back.encoding if value.is_a?(String)
        refute_predicate back, :frozen? if value.is_a?(String)
      end
    end

    def test_add_stores_only_what_is_missing
      assert_kind_of Integer, client.add("key", 1)
      assert_equal false, client.add("key", 2)
      assert_equal 1, client.get("key")
    end

    def test_replace_stores_only_what_is_there
      assert_equal false, client.replace("key", 1)
      assert_nil client.get("key")
      client.set("key", 1)
      assert_kind_of Integer, client.replace("key", 2)
      assert_equal 2, client.get("key")
    end

    def test_delete_tells_whether_it_was_there
      client.set("key", 1)
      assert_equal true, client.delete("key")
      assert_equal false, client.delete("key")
    end

    def test_append_and_prepend
      assert_equal false, client.append("key", "x")
      assert_equal false, client.prepend("key", "x")
      client.set("key", "b", nil, raw: true)
      assert_equal true, client.append("key", "c")
      assert_equal true, client.prepend("key", "a")
      assert_equal true, client.append("key", 5)
      assert_equal "abc5", client.get("key")
      assert_equal "abc5", client.get("key", raw: true)
    end

    # --- counters ---------------------------------------------------------------------------------

    def test_a_counter_without_a_default_has_to_be_there
      assert_nil client.incr("key")
      assert_nil client.decr("key")
      assert_nil client.get("key")
    end

    def test_counters
      assert_equal 5, client.incr("key", 1, nil, 5)
      assert_equal 6, client.incr("key")
      assert_equal 16, client.incr("key", 10)
      assert_equal 13, client.decr("key", 3)
      assert_equal 12, client.decr("key")
      assert_equal 0, client.decr("key", 300)
      assert_equal 7, client.decr("other", 1, 0, 7)
      assert_equal "7", client.get("other", raw: true).strip
    end

    def test_counters_wrap_at_64_bits
      client.set("key", (2**64 - 1).to_s, nil, raw: true)
      assert_equal 1, client.incr("key", 2)
    end

    def test_a_counter_of_a_key_in_base64
      assert_equal 3, client.incr("a key", 1, nil, 3)
      assert_equal 4, client.incr("a key", 1, nil, 3)
      assert_equal({ "a key" => "4" }, client.get_multi("a key"))
    end

    def test_an_invalid_number_cannot_be_counted
      client.set("key", "abc", nil, raw: true)
      assert_raises(error(:DalliError)) { client.incr("key", 1) }
      assert_equal "abc", client.get("key")
    end

    def test_amounts_have_64_bits_and_no_sign
      since("5.3")
      [-1, 2**64, "x", 1.5, Object.new].each do |amount|
        assert_raises(ArgumentError) { client.incr("key", amount) }
        assert_raises(ArgumentError) { client.decr("key", amount) }
        assert_raises(ArgumentError) { client.incr("key", 1, nil, amount) }
      end
      client.incr("key", 1, nil, 1)
      assert_equal 4, client.incr("key", "3")
    end

    # --- times ------------------------------------------------------------------------------------

    def test_touch_and_gat
      client.set("key", 1)
      assert_equal true, client.touch("key", 10)
      assert_equal true, client.touch("key")
      assert_nil client.touch("none", 10)
      assert_equal 1, client.gat("key", 10)
      assert_equal 1, client.gat("key")
      assert_nil client.gat("none", 10)
    end

    def test_a_negative_time_has_expired
      assert_kind_of Integer, client.set("key", 1, -1)
      assert_nil client.get("key")
      client.set("key", 1)
      client.touch("key", -1)
      assert_nil client.get("key")
    end

    def test_times_reach_the_server
      since("5.0")
      remaining = lambda do |ttl|
        client.set("key", 1, ttl)
        client.get_with_metadata("key", return_ttl_remaining: true).fetch(:ttl_remaining)
      end
      assert_equal(-1, remaining[nil])
      assert_equal(-1, remaining[0])
      assert_includes 900..1000, remaining[1000]
      assert_includes 900..1000, remaining["1000"]
      assert_includes 900..1000, remaining[1000.9]
      month = 31 * 86_400
      assert_includes (month - 100)..(month + 3), remaining[month]
      assert_includes (month - 100)..(month + 3), remaining[Time.now.to_i + month]
      with_default = new_client(expires_in: 1000)
      with_default.set("key", 1)
      assert_includes 900..1000, with_default.get_with_metadata("key", return_ttl_remaining: true).fetch(:ttl_remaining)
      with_default.close
    end

    def test_an_invalid_time_is_refused
      since("5.3")
      ["abc", {}, 2**40, Object.new].each { |ttl| assert_raises(ArgumentError, ttl.inspect) { client.set("key", 1, ttl) } }
    end

    # --- compare and set --------------------------------------------------------------------------

    def test_get_cas
      assert_equal [nil, 0], client.get_cas("key")
      number = client.set("key", 1)
      assert_equal [1, number], client.get_cas("key")
      assert_equal [1, number, :seen], client.get_cas("key") { |value, cas| [value, cas, :seen] }
    end

    def test_set_cas_stores_only_what_has_not_changed
      old = client.set("key", 1)
      fresh = client.set_cas("key", 2, old)
      assert_kind_of Integer, fresh
      assert_equal false, client.set_cas("key", 3, old)
      assert_equal false, client.set_cas("none", 3, old)
      assert_equal 2, client.get("key")
      assert_kind_of Integer, client.set_cas("none", 3, 0)
    end

    def test_replace_cas_and_delete_cas
      old = client.set("key", 1)
      assert_kind_of Integer, client.replace_cas("key", 2, old)
      assert_equal false, client.replace_cas("key", 3, old)
      assert_equal false, client.replace_cas("none", 3, old)
      assert_equal false, client.delete_cas("key", old)
      assert_equal true, client.delete_cas("key", client.get_cas("key").last)
      client.set("key", 1)
      assert_equal true, client.delete_cas("key")
    end

    def test_cas_numbers_have_64_bits_and_no_sign
      since("5.3")
      [-1, 2**64, "abc", 1.5].each do |cas|
        assert_raises(ArgumentError) { client.set_cas("key", 1, cas) }
        assert_raises(ArgumentError) { client.replace_cas("key", 1, cas) }
        assert_raises(ArgumentError) { client.delete_cas("key", cas) }
      end
    end

    def test_cas_with_a_block
      assert_nil(client.cas("key") { flunk("there is nothing to change") })
      client.set("key", 1)
      assert_kind_of(Integer, client.cas("key") { |value| value + 1 })
      assert_equal 2, client.get("key")
      lost = client.cas("key") do |value|
        client.set("key", 50)
        value + 1
      end
      assert_equal false, lost
      assert_equal 50, client.get("key")
    end

    def test_cas_with_an_exclamation_mark_also_stores_what_is_missing
      assert_kind_of(Integer, client.cas!("key") { |value| value.inspect })
      assert_equal "nil", client.get("key")
      client.cas!("key") { |value| "#{value}!" }
      assert_equal "nil!", client.get("key")
    end

    # --- fetch ------------------------------------------------------------------------------------

    def test_fetch
      assert_nil client.fetch("key")
      assert_equal 5, client.fetch("key") { 5 }
      assert_equal 5, client.fetch("key") { flunk("it is there") }
      assert_equal 5, client.fetch("key")
      assert_equal false, client.fetch("no") { false }
      assert_equal false, client.fetch("no") { flunk("it is there") }
    end

    def test_fetch_takes_a_stored_nil_for_missing
      assert_nil(client.fetch("key") { nil })
      assert_equal 6, client.fetch("key") { 6 }
    end

    def test_with_cache_nils_a_stored_nil_is_a_value
      nils = new_client(cache_nils: true)
      assert_nil(nils.fetch("key") { nil })
      assert_nil(nils.fetch("key") { flunk("it is there") })
      assert_nil nils.get("key")
      assert_nil nils.get("none")
      assert_equal 1, nils.fetch("none") { 1 }
    ensure
      nils&.close
    end

    def test_fetch_keeps_what_another_has_added_meanwhile
      value = client.fetch("key") do
        client.set("key", "theirs")
        "ours"
      end
      assert_equal %w[ours theirs], [value, client.get("key")]
    end

    def test_fetch_hands_its_options_and_time_on
      assert_equal "x", client.fetch("key", -1) { "x" }
      assert_nil client.get("key")
      assert_equal "x", client.fetch("key", nil, raw: true) { "x" }
      assert_equal "x", client.get("key", raw: true)
    end

    def test_fetch_with_lock_lets_one_make_the_value
      since("5.0")
      assert_equal 7, client.fetch_with_lock("key") { 7 }
      assert_equal 7, client.fetch_with_lock("key") { flunk("it is there") }
      inner = nil
      assert_equal(1, client.fetch_with_lock("other") do
        inner = client.fetch_with_lock("other") { flunk("another one makes it") }
        1
      end)
      assert_equal "", inner.to_s
      assert_raises(ArgumentError) { client.fetch_with_lock("key") }
      assert_equal 2, client.fetch_with_lock("third", ttl: 30, lock_ttl: 5, recache_threshold: 10) { 2 }
    end

    def test_fetch_with_lock_makes_it_again_before_it_expires
      since("5.0")
      client.set("key", "old", 5)
      assert_equal "new", client.fetch_with_lock("key", ttl: 60, recache_threshold: 10) { "new" }
      assert_equal "new", client.get("key")
    end

    # --- many -------------------------------------------------------------------------------------

    def test_get_multi
      client.set("a", 1)
      client.set("b", [2])
      assert_equal({ "a" => 1, "b" => [2] }, client.get_multi("a", :b, nil, ["a", ["none"]]))
      [[], [[]], [nil], [[nil]]].each { |keys| assert_equal({}, client.get_multi(*keys)) }
      assert_raises(ArgumentError) { client.get_multi("a", "") }
      assert_equal({}, client.get_multi("none", "neither"))
    end

    def test_get_multi_yields_pairs
      client.set("a", 1)
      client.set("b", 2)
      pairs = []
      assert_nil(client.get_multi(%w[a b none]) { |key, value| pairs << [key, value] })
      assert_equal [["a", 1], ["b", 2]], pairs.sort
    end

    def test_get_multi_has_the_callers_keys
      since("5.0")
      spaced = new_client(namespace: "app")
      long = "k" * 300
      keys = ["plain", "with space", "ключ", long]
      keys.each_with_index { |key, index| spaced.set(key, index) }
      assert_equal keys.each_with_index.to_h, spaced.get_multi(keys)
      assert_equal({ "app:plain" => 0 }, client.get_multi("app:plain"))
    ensure
      spaced&.close
    end

    def test_get_multi_of_many_and_long_values
      pairs = Array.new(500) { |number| ["key#{number}", "#{number}:#{"x" * (number * 20)}"] }.to_h
      client.quiet { pairs.each { |key, value| client.set(key, value) } }
      assert_equal pairs, client.get_multi(pairs.keys + %w[none])
    end

    def test_get_multi_cas
      number = client.set("a", 1)
      assert_equal({ "a" => [1, number] }, client.get_multi_cas("a", "none"))
      pairs = []
      client.get_multi_cas("a", "none") { |key, data| pairs << [key, data] }
      assert_equal [["a", [1, number]]], pairs
      assert_equal({}, client.get_multi_cas)
    end

    def test_set_multi
      since("5.0")
      assert_nil client.set_multi({ "a" => 1, b: [2] })
      assert_equal({ "a" => 1, "b" => [2] }, client.get_multi("a", "b"))
      assert_nil client.set_multi({})
      client.set_multi({ "a" => 5 }, -1)
      assert_nil client.get("a")
      client.set_multi({ "a" => "raw" }, nil, raw: true)
      assert_equal "raw", client.get("a", raw: true)
    end

    def test_set_multi_stores_the_others_and_then_raises_for_what_is_too_large
      since("5.1")
      assert_raises(error(:ValueOverMaxSize)) { client.set_multi({ "large" => Random.bytes(2_000_000), "small" => 1 }) }
      assert_equal({ "small" => 1 }, client.get_multi("small", "large"))
    end

    def test_delete_multi
      since("5.0")
      client.set("a", 1)
      client.set("b", 1)
      assert_equal 2, client.delete_multi(%w[a b none])
      assert_equal 0, client.delete_multi([])
      assert_equal({}, client.get_multi("a", "b"))
    end

    # --- quiet ------------------------------------------------------------------------------------

    def test_a_quiet_block_returns_its_own_value_and_its_calls_nil
      results = nil
      returned = client.quiet do
        results = [client.set("a", 1), client.add("a", 2), client.delete("none"), client.incr("n", 1, nil, 5), client.append("a", "x"),
                   client.replace("none", 1), client.decr("n", 1, nil, 5), client.prepend("none", "x")]
        :end
      end
      assert_equal :end, returned
      assert_equal [nil], results.uniq
      assert_equal "4", client.get("n", raw: true).strip
    end

    def test_what_was_set_quietly_is_there_after_the_block
      client.multi { 200.times { |number| client.set("key#{number}", number) } }
      assert_equal 200, client.get_multi(Array.new(200) { |number| "key#{number}" }).size
    end

    def test_quiet_blocks_nest_and_end_with_an_exception
      assert_raises(KeyError) do
        client.quiet do
          client.quiet { client.set("a", 1) }
          client.set("b", 2)
          raise KeyError
        end
      end
      assert_equal({ "a" => 1, "b" => 2 }, client.get_multi("a", "b"))
    end

    def test_what_needs_its_reply_is_refused_in_a_quiet_block
      calls = [-> { client.get("a") }, -> { client.touch("a", 5) }, -> { client.gat("a", 5) }, -> { client.get_cas("a") },
               -> { client.fetch("a") { 1 } }]
      calls.push(-> { client.get_multi("a", "b") }, -> { client.set_multi({ "a" => 1 }) }, -> { client.delete_multi(%w[a]) }) if since?("5.1")
      calls.each do |call|
        client.quiet { assert_raises(error(:NotPermittedMultiOpError)) { call.call } }
      end
      client.set("a", 1)
      assert_equal 1, client.get("a")
    end

    # --- metadata ---------------------------------------------------------------------------------

    def test_get_with_metadata
      since("5.3")
      number = client.set("key", "text")
      assert_equal({ value: "text", cas: number, miss: false, stale: false, won_recache: false, lost_recache: false },
        client.get_with_metadata("key"))
      assert_equal({ value: nil, cas: 0, miss: true, stale: false, won_recache: false, lost_recache: false }, client.get_with_metadata("none"))
      fields = client.get_with_metadata("key", return_hit_status: true, return_last_access: true, return_ttl_remaining: true)
      assert_equal [true, -1], fields.values_at(:hit_before, :ttl_remaining)
      assert_kind_of Integer, fields.fetch(:last_access)
    end

    def test_get_with_metadata_leaves_no_trace_if_told
      since("5.3")
      client.set("key", 1)
      2.times { assert_equal false, client.get_with_metadata("key", return_hit_status: true, skip_lru_bump: true).fetch(:hit_before) }
      client.get("key")
      assert_equal true, client.get_with_metadata("key", return_hit_status: true, skip_lru_bump: true).fetch(:hit_before)
    end

    def test_get_with_metadata_makes_a_place_for_what_is_missing
      since("5.3")
      won = client.get_with_metadata("key", vivify_ttl: 30)
      assert_equal [true, false, false], won.values_at(:won_recache, :lost_recache, :miss)
      lost = client.get_with_metadata("key", vivify_ttl: 30)
      assert_equal [false, true, false], lost.values_at(:won_recache, :lost_recache, :miss)
    end

    def test_get_multi_with_metadata
      since("5.3")
      number = client.set("a", 1)
      assert_equal({ "a" => { value: 1, cas: number, stale: false, miss: false } }, client.get_multi_with_metadata("a", "none"))
      pairs = []
      assert_nil(client.get_multi_with_metadata(%w[a none]) { |key, data| pairs << [key, data[:value]] })
      assert_equal [["a", 1]], pairs
    end

    def test_results_as_objects
      since("5.3")
      client.set("a", 1)
      result = client.get_with_metadata_result("a")
      assert_equal [1, true, false, false, false, false],
        [result.value, result.hit?, result.miss?, result.stale?, result.won_recache?, result.lost_recache?]
      assert_predicate client.get_with_metadata_result("none"), :miss?
      assert_equal 1, client.get_multi_with_metadata_result("a", "none").fetch("a").value
    end

    def test_an_invalidated_item_is_stale_and_one_is_to_make_it_again
      since("5.3")
      client.set("key", 5)
      assert_equal true, client.delete("key", invalidate: true, tombstone_ttl: 30)
      assert_equal 5, client.get("key")
      assert_equal true, client.get_with_metadata("key").fetch(:stale)
      assert_equal true, client.get_multi_with_metadata("key").fetch("key").fetch(:stale)
      assert_raises(ArgumentError) { client.delete("key", tombstone_ttl: 30) }
    end

    # --- servers ----------------------------------------------------------------------------------

    def test_flush_empties_all_servers
      client.set("key", 1)
      assert_equal [true], client.flush
      assert_equal [true], client.flush_all
      assert_nil client.get("key")
      assert_equal [true], client.flush(10)
    end

    def test_a_delay_is_a_number
      since("5.3")
      ["abc", -1, 2**64].each { |delay| assert_raises(ArgumentError) { client.flush(delay) } }
    end

    def test_stats_and_version
      stats = client.stats
      assert_equal [address], stats.keys
      assert_match(/\A\d+\z/, stats.fetch(address).fetch("pid"))
      assert_match(/\A\d+\z/, client.stats(:settings).fetch(address).fetch("maxbytes"))
      assert_kind_of Hash, client.stats(:items).fetch(address)
      assert_includes client.stats(:nonsense).fetch(address), "pid"
      assert_equal [true], client.reset_stats
      assert_match(/\A\d+\.\d+/, client.version.fetch(address))
      assert client.alive!
    end

    def test_a_closed_client_opens_again
      client.set("key", 1)
      assert_nil client.close
      assert_nil client.close
      assert_equal 1, client.get("key")
      client.reset
      assert_equal 1, client.get("key")
      assert_same client, (client.with { |given| given })
    end

    def test_without_a_server_that_is_available
      down = new_client(server: "127.0.0.1:1")
      [-> { down.get("a") }, -> { down.set("a", 1) }, -> { down.add("a", 1) }, -> { down.incr("a") }, -> { down.touch("a", 1) },
       -> { down.delete("a") }, -> { down.get_cas("a") }, -> { down.alive! }, -> { down.fetch("a") { 1 } }].each do |call|
        assert_match(/No server available/, assert_raises(error(:RingError)) { call.call }.message)
      end
      assert_raises(error(:RingError)) { down.quiet { down.set("a", 1) } }
      assert_equal({}, down.get_multi("a", "b"))
      assert_equal [{ "127.0.0.1:1" => nil }], [down.stats, down.version].uniq
      return unless since?("5.0")

      assert_nil down.set_multi({ "a" => 1 })
      assert_equal 0, down.delete_multi(%w[a])
      assert_raises(error(:NetworkError), error(:RingError)) { down.flush }
    ensure
      down&.close
    end

    # --- keys and values --------------------------------------------------------------------------

    def test_keys_that_cannot_be
      [nil, ""].each do |key|
        assert_raises(ArgumentError) { client.get(key) }
        assert_raises(ArgumentError) { client.set(key, 1) }
        assert_raises(ArgumentError) { client.delete(key) }
        assert_raises(ArgumentError) { client.incr(key) }
      end
    end

    def test_keys_with_spaces_other_letters_and_beyond_250_bytes
      ["a b", "ключ", "k" * 300, "ü" * 200].each_with_index do |key, number|
        assert_kind_of Integer, client.set(key, number)
        assert_equal number, client.get(key)
        assert_equal true, client.touch(key, 100)
        assert_equal true, client.delete(key)
      end
    end

    def test_namespaces
      current = "one"
      spaced = new_client(namespace: "app")
      changing = new_client(namespace: -> { current })
      spaced.set("key", 1)
      assert_equal [1, nil, 1], [client.get("app:key"), client.get("key"), spaced.get("key")]
      changing.set("key", 2)
      current = "two"
      assert_nil changing.get("key")
      assert_equal 2, client.get("one:key")
    ensure
      [spaced, changing].compact.each(&:close)
    end

    def test_a_value_over_the_limit
      assert_raises(error(:ValueOverMaxSize)) { client.set("key", "x" * 2_000_000, nil, compress: false) }
      assert_kind_of Integer, client.set("key", "x" * 2_000_000)
      assert_equal 2_000_000, client.get("key").bytesize
      small = new_client(value_max_bytes: 1_000)
      assert_raises(error(:ValueOverMaxSize)) { small.set("key", "x" * 1_001, nil, compress: false) }
    ensure
      small&.close
    end

    def test_a_value_that_cannot_be_stored
      assert_raises(error(:MarshalError)) { client.set("key", proc {}) }
      assert_nil client.get("key")
    end

    def test_a_value_that_cannot_be_read
      client.set("key", "text", nil, raw: true)
      tampered = new_client(serializer: Module.new { def self.dump(_value) = "no form at all" })
      tampered.set("key", [1])
      assert_raises(error(:UnmarshalError)) { client.get("key") }
      client.set("other", 1)
      assert_raises(error(:UnmarshalError)) { client.get_multi("key", "other") }
      assert_equal 1, client.get("other")
    ensure
      tampered&.close
    end

    def test_raw_values
      since("5.0")
      assert_raises(error(:MarshalError)) { client.set("key", 1, nil, raw: true) }
      client.set("key", "\xff", nil, raw: true)
      assert_equal ["\xff".b, Encoding::BINARY], [client.get("key", raw: true), client.get("key", raw: true).encoding]
      raw = new_client(raw: true)
      assert_raises(error(:MarshalError)) { raw.set("key", 1) }
      raw.set("key", "text")
      assert_equal({ "key" => "text" }, raw.get_multi("key"))
    ensure
      raw&.close
    end

    def test_a_raw_read_returns_the_stored_bytes
      since("5.2")
      client.set("key", [1])
      bytes = client.get("key", raw: true)
      assert_kind_of String, bytes
      assert_equal client.get("key", raw: true), client.gat("key", 10, raw: true)
      assert_equal bytes, client.get_cas("key", raw: true).first
    end

    def test_options_may_be_a_hash_or_keywords
      client.set("key", "1", nil, { raw: true })
      assert_equal "1", client.get("key", { raw: true })
      assert_equal "1", client.get("key", raw: true)
      assert_equal "1", client.get("key", nil)
      client.replace("key", "2", nil, raw: true)
      client.delete("key")
      client.add("key", "3", nil, raw: true)
      assert_equal "3", client.get("key")
      assert_equal "3", client.get_cas("key", raw: true).first if since?("5.0")
    end

    def test_compression_of_one_value_can_be_chosen
      plain = new_client(compress: false)
      [[plain, true], [client, false], [client, true]].each do |other, compress|
        other.set("key", "x" * 10_000, nil, compress: compress)
        assert_equal "x" * 10_000, client.get("key")
        assert_equal "x" * 10_000, plain.get("key")
      end
    ensure
      plain&.close
    end

    private

    attr_reader :client

    # What the gem does not have in its older versions is left out there.
    def since(version)
      skip "Dalli has this since #{version}" unless since?(version)
    end

    def since?(version)
      gem_version.nil? || Gem::Version.new(gem_version) >= Gem::Version.new(version)
    end
  end
end
