# frozen_string_literal: true

# Gyre.profile and its result: the CPU time of a program by stack, merged from samples of one or
# more processes. ext/gyre/fiber/samples.c takes them; Pprof and flames.html show them.

require "gyre/errors"
require "gyre/loop"
require "gyre/ractor"
require "json"

module Gyre
  # Samples where this process spends its CPU time, a hundred times a second of it: while the block
  # runs, but at most for `seconds`; without a block for `seconds`, while other tasks and threads
  # run. Costs less than 1 % of that time. Needs Ruby 3.3 or newer.
  #
  #   profile = Gyre.profile { work }
  #   File.write("work.html", profile.html)
  # @param seconds [Numeric, nil] real time
  # @return [Profile]
  # @raise [ArgumentError] neither a time nor a block
  # @raise [Error] this Ruby cannot, or a profile of this process is being taken already
  def self.profile(seconds = nil, &block)
    raise ArgumentError, "Gyre.profile needs a block, or the seconds" unless seconds || block

    block ? Profile.take(seconds, &block) : Profile.take { sleep(seconds) }
  end

  # CPU time by stack, of all threads of a process that run Ruby (in the main Ractor). A stack
  # begins with its label, the route or task that it worked for. Time of a C function without the
  # GVL counts for what the thread does next.
  class Profile
    INTERVAL_S = 0.01
    # Nodes of a merged tree; time beyond it counts for the known part of its stack.
    NODES_LIMIT = 1 << 17
    TEXT_LIMIT = 300
    UNLIMITED_S = 1e9
    # Rows of Loop.usage.
    THREADS = "(threads)"
    OTHER = "(other)"
    private_constant :INTERVAL_S, :NODES_LIMIT, :TEXT_LIMIT, :UNLIMITED_S, :THREADS, :OTHER

    class << self
      # @raise [Error] tells why this process takes no profile
      # @api private
      def check
        raise Error, "a profile needs Ruby 3.3 or newer, and this is #{RUBY_VERSION}" if RUBY_VERSION < "3.3"
        raise Error, "a profile needs the C extension, on a system with POSIX threads" unless Loop.native? && defined?(Samples)
        raise Error, "a profile is taken in the main Ractor" unless Ractor.current == Ractor.main
      end

      # (see Gyre.profile)
      # @api private
      def take(seconds = nil, interval_s: INTERVAL_S)
        check
        limit_s = Float(seconds || UNLIMITED_S)
        before = Loop.usage
        began_s = now_s
        begin
          started = Samples.start((interval_s * 1e9).to_i, (limit_s * 1e9).to_i, before && Fiber.scheduler)
          raise Error, "another profile of this process is being taken" unless started

          yield
          seconds_taken = [now_s - began_s, limit_s].min
        ensure
          frames, nodes = Samples.stop if started
        end
        frames = clean(frames.to_a)
        after = Loop.usage if before && !seconds
        scale(frames, nodes, spent(before, after)) if after && nodes
        new(seconds_taken, frames, nodes.to_a)
      end

      # Merges profiles of several processes.
      # @api private
      def merge(profiles) = profiles.reduce(new(profiles.map(&:seconds).max.to_f)) { |all, each| all.add(each.frames, each.nodes) }

      # Reads another process's {#to_h}.
      # @raise [ArgumentError] if it is malformed
      # @api private
      def from(hash)
        seconds, frames, nodes = hash.values_at("seconds", "frames", "nodes") if hash.is_a?(Hash)
        valid = ([seconds, frames, nodes] in [Numeric, [*], [*]]) &&
                frames.all? { |frame| frame in [String | nil, String | nil, Integer | nil] } &&
                nodes.each_with_index.all? do |node, at|
                  (node in [Integer, Integer, Integer, Integer]) && !node.min.negative? && node[0] < [at, 1].max && node[1] < frames.size
                end
        return new(seconds, frames, nodes) if valid

        raise ArgumentError, "not a profile"
      end

      private

      # Returns the nanoseconds of CPU by label between two of Loop.usage. A sample knows no status,
      # so those of (none) have other labels.
      def spent(before, after)
        spent = after.to_h { |label, row| [label, ((row[:cpu_s] - before.dig(label, :cpu_s).to_f) * 1e9).round.clamp(0..)] }
        spent.merge(OTHER => spent[OTHER].to_i + spent.delete("(none)").to_i)
      end

      # Scales the samples of each label to the CPU time that the loop measured, because samples are
      # late while the loop sleeps or C code runs.
      def scale(frames, nodes, spent)
        labels = []
        nodes.each { |parent, frame| labels << (parent.zero? ? label(frames[frame].first, spent) : labels[parent]) }
        sampled = labels.zip(nodes).each_with_object(Hash.new(0)) { |(label, node), sums| sums[label] += node[3] }
        nodes.each_with_index do |node, number|
          label = labels[number]
          node[3] = node[3] * spent.fetch(label, 0) / sampled[label] if sampled[label].positive?
          node[1] = frames.push([label, nil, nil]).size - 1 if node[0].zero? && number.positive?
        end
        spent.each do |label, ns|
          next if sampled[label].positive? || ns.zero?

          frames.push([label, nil, nil], ["(not sampled)", nil, nil])
          nodes.push([0, frames.size - 2, 0, 0], [nodes.size, frames.size - 1, 0, ns])
        end
      end

      def label(name, spent) = spent.key?(name) ? name : (name ? OTHER : THREADS)

      def now_s = Process.clock_gettime(Process::CLOCK_MONOTONIC) # real time, even if the program's clock is virtual

      # Names of code may have any encoding and length.
      def clean(frames)
        frames.map do |name, path, line|
          [*[name, path].map { |text| text&.encode(Encoding::UTF_8, invalid: :replace, undef: :replace)&.scrub&.slice(0, TEXT_LIMIT) }, line]
        end
      end
    end

    # @return [Float] how long it took
    attr_reader :seconds
    # @return [Array<Array>] name, path and line
    # @api private
    attr_reader :frames
    # @return [Array<Array<Integer>>] parent, frame, samples and nanoseconds, the root first
    # @api private
    attr_reader :nodes

    # @api private
    def initialize(seconds, frames = [], nodes = [])
      @seconds = seconds
      @frames = [[nil, nil, nil]]
      @nodes = [[0, 0, 0, 0]]
      @numbers = { @frames.first => 0 } # of frames
      @children = {} # [parent, frame] => node
      add(frames, nodes)
    end

    # Adds a tree to this one.
    # @api private
    def add(frames, nodes)
      numbers = frames.map { |frame| @numbers[frame] ||= @frames.push(frame).size - 1 }
      places = []
      nodes.each_with_index do |(parent, frame, count, ns), number|
        places << (number.zero? ? 0 : child(places[parent], numbers[frame]))
        node = @nodes[places.last]
        node[2] += count
        node[3] += ns
      end
      self
    end

    # @return [Float] seconds of CPU time in it
    def cpu_s = @nodes.sum(&:last) / 1e9

    # @yieldparam label [String, nil] the route or task
    # @yieldparam frames [Array<Integer>] indexes of {#frames}, the outermost first
    # @yieldparam count [Integer] samples
    # @yieldparam ns [Integer] CPU time
    # @api private
    def each_stack
      @nodes.each do |node|
        next unless node.last.positive?

        stack = []
        at = node
        until at.equal?(@nodes.first)
          stack << at[1]
          at = @nodes[at[0]]
        end
        yield @frames[stack.pop.to_i].first, stack.reverse, node[2], node[3]
      end
    end

    # For `go tool pprof`, speedscope, Pyroscope and Perfetto.
    # @return [String] gzipped; labels are named route
    def pprof = Pprof.new(self).gzip

    # A line for each stack, with microseconds: for flamegraph.pl and speedscope.
    # @return [String]
    def collapsed
      lines = []
      each_stack do |label, frames, _, ns|
        words = [*label, *frames.map { |frame| text(*@frames[frame]) }]
        lines << "#{words.map { |word| word.tr(";\n", ", ") }.join(";")} #{ns / 1000}\n"
      end
      lines.join
    end

    # A flame graph that needs nothing else.
    # @return [String]
    def html
      data = JSON.generate(to_h).gsub(/[<>&\u2028\u2029]/) { |letter| format("\\u%04x", letter.ord) }
      File.read(File.join(__dir__, "profile/flames.html"), encoding: "UTF-8").sub("{}") { data }
    end

    # @return [Hash]
    # @api private
    def to_h = { "seconds" => @seconds.round(3), "frames" => @frames, "nodes" => @nodes }

    private

    def child(parent, frame)
      key = (parent << 32) | frame
      @children[key] || (@nodes.size < NODES_LIMIT ? @children[key] = @nodes.push([parent, frame, 0, 0]).size - 1 : parent)
    end

    def text(name, path, line) = path ? "#{name} (#{path}:#{line})" : name.to_s
  end
end

require "gyre/profile/pprof"
