# frozen_string_literal: true

# What happens in a run of the crash test, and how often. Read by GyreTest::LogCrash::World.

module GyreTest
  module LogCrash
    # actions: {a method of World's => its weight}
    Plan = Struct.new(:name, :actions, :writers, :server, :writer_options, :network, keyword_init: true) do
      self::SERVICES = %w[apart shared].freeze
      self::LAST_WRITER = { messages: 30, threads: 1, forks: 0, pause_s: 0.0, mine: nil, old: false, last: true }.freeze

      def draw(random)
        at = random.rand(actions.values.sum)
        actions.find { |_, weight| (at -= weight).negative? }.first
      end

      def settings(random)
        { "interval" => random.rand * 0.05, "journal_bytes" => [200, 2000, 1 << 20].sample(random: random), "rotate" => nil }
          .merge(server || {})
      end

      def writer(random)
        { service: self.class::SERVICES.sample(random: random), messages: 20 + random.rand(2000), threads: 1, forks: 0,
          pause_s: [0.0, 0.002, 0.02].sample(random: random), mine: nil, old: random.rand(6).zero? }
          .merge(writer_options ? writer_options.call(random) : {})
      end
    end

    MINED = ->(random) { { threads: 1 + random.rand(2), forks: random.rand(3), mine: random.rand(2).zero? ? 1 + random.rand(60) : nil } }
    PLANS = [
      Plan.new(name: "servers", writers: 4, actions: { kill_server: 5, blow_up_server: 5, end_server: 1 },
               writer_options: ->(random) { { threads: 1 + random.rand(3) } }),
      Plan.new(name: "rotation", writers: 3, actions: { kill_server: 2, blow_up_server: 4, nothing: 4 },
               server: { "rotate" => { "size" => 30_000, "keep" => 100_000, "compress" => "gzip" } }),
      Plan.new(name: "renaming", writers: 3, actions: { kill_server: 3, blow_up_server: 1, rename_files: 5 }),
      Plan.new(name: "writers", writers: 5, actions: { kill_writer: 6, outage: 2, kill_server: 2, nothing: 2 }, writer_options: MINED),
      Plan.new(name: "network", writers: 4, network: true, actions: { kill_writer: 2, kill_server: 3, stop_and_go: 1, nothing: 3 }),
      Plan.new(name: "handover", writers: 4, actions: { hand_over: 3, kill_server: 2, rename_files: 1 }),
      Plan.new(name: "moves", writers: 4, actions: { move: 2, move_by_a_stop: 1, kill_server: 1, kill_writer: 2 }, server: { "moves" => 0 }),
      Plan.new(name: "disk", writers: 3, actions: { fill_disk: 4, blow_up_server: 1, kill_writer: 1 })
    ].to_h { |plan| [plan.name, plan] }.freeze
  end
end
