# frozen_string_literal: true

# Random programs of EventMachine, for test/compare/event_machine.rb: each has some connections,
# watches, timers or children, steps that a seed chooses, and a trace for each of its objects (its
# callbacks in their order, and the bytes that came between two of them). All programs of a run take
# their next step at the same time, and steps are far enough from each other for all to be quiet.
# Prints the traces as JSON. Programs with negative numbers fork.
#
#   ruby -I… test/compare/event_machine_stories.rb SEED STEP_S NUMBERS…

require "eventmachine"
require "json"
require "socket"
require "tmpdir"
require "zlib"

module EventMachineStories
  STEPS = 8
  # Reads of the programs outside between two steps.
  LOOKS = 4
  SMALL = [1, 10, 500].freeze
  SIZES = [*SMALL, 16_384, 100_000, 300_000].freeze
  BYTES = Random.new(1).bytes(400_000).freeze

  # An object's trace. Bytes that follow each other count as one piece.
  class Trace
    def initialize = @entries = []

    def call(*entry) = @entries << entry.map { |value| plain(value) }

    def bytes(data)
      last = @entries.last
      return @entries << ["bytes", data.bytesize, Zlib.crc32(data)] unless last&.first == "bytes"

      last[2] = Zlib.crc32(data, last[2])
      last[1] += data.bytesize
    end

    def to_json(*) = @entries.to_json

    private

    def plain(value)
      case value
      when Integer, true, false, nil then value
      when Exception then value.class.name.delete_prefix("Gyre::")
      else value.to_s
      end
    end
  end

  # Reports callbacks, and does once what the story asks for in its next one.
  module Reports
    attr_accessor :trace, :armed, :story

    def connection_completed = trace.call("completed")
    def receive_data(data) = trace.bytes(data) || act
    def receive_line(line) = trace.call("line", line.bytesize, Zlib.crc32(line)) && act
    def receive_binary_data(data) = trace.bytes(data)
    def proxy_target_unbound = trace.call("target unbound")
    def proxy_completed = trace.call("proxy completed")
    def ssl_handshake_completed = trace.call("handshake") && send_data("behind the handshake")
    def unbind(reason = nil) = trace.call("unbind", reason, send_data("late"))

    private

    def act
      action, @armed = armed, nil
      instance_exec(&action) if action
    end
  end

  class Plain < EM::Connection
    include Reports

    def initialize(story = nil)
      super()
      self.story = story
      self.trace = story.trace(self.class.name[/\w+\z/].downcase)
      story.connected(self)
    end
  end

  class Lines < Plain
    include EM::Protocols::LineText2
  end

  # Reads an IO that it watches.
  class Watching < Plain
    def notify_readable
      data = @io.read_nonblock(1000, exception: false)
      return if data == :wait_readable

      data ? trace.bytes(data) : trace.call("end") && detach
      act
    end
  end

  # The program outside: a socket or pipe that is used without EventMachine.
  class Peer
    def initialize(trace, io)
      @trace = trace
      @io = io
    end

    def look
      while !@over && (data = @io.read_nonblock(65_536, exception: false)) != :wait_readable
        next @trace.bytes(data) if data

        @over = true
        @trace.call("end")
      end
    rescue SystemCallError, IOError => error
      @over = true
      @trace.call("error", error)
    end

    def write(data)
      @io.write_nonblock(data) unless @io.closed?
    rescue SystemCallError => error
      @trace.call("refused", error)
    end

    def close_write = !@io.closed? && @io.close_write
    def close = (@over = true) && @io.close
    def reset = @io.setsockopt(:SOCKET, :LINGER, [1, 0].pack("ii")) && close
  rescue SystemCallError
    nil
  end

  # One program. Subclasses have `open` and the steps of their kind.
  class Story
    attr_reader :number, :random, :log, :traces

    def initialize(seed, number, folder)
      @number = number
      @random = Random.new((seed * 1_000_003) + number)
      @folder = folder
      @log = []
      @traces = {}
      @peers = []
      @connections = []
    end

    def trace(name) = @traces["#{name} #{@traces.size}"] = Trace.new

    def connected(connection) = @connections << connection

    def any(values) = values[@random.rand(values.size)]

    def data(sizes = SIZES) = BYTES.byteslice(@random.rand(1000), any(sizes))

    def step
      return open if @log.empty? && @log << "open"

      name = any(steps)
      @log << name
      value = public_send(name)
      @main ||= trace("calls")
      @main.call(name, [true, false, nil].include?(value) ? value : "value")
    rescue StandardError => error
      raise if error.is_a?(NameError)

      @main.call(name, error)
    end

    def look = @peers.each(&:look)

    def peer(io) = @peers << (@peer = Peer.new(trace("peer"), io))

    def outside(socket, address)
      socket.connect_nonblock(address, exception: false)
      peer(socket)
    end
  end

  # A connection and a program at its other end.
  class Connected < Story
    def steps
      %i[send send send close close_after pause resume peer_sends peer_sends peer_ends peer_closes peer_resets raises closes_in_callback
         closes_after_in_callback pauses_in_callback detaches sends_in_callback asks]
    end

    def handler = Plain

    def open
      case any(%i[served served_unix client attached])
      when :served
        server = EM.start_server("127.0.0.1", 0, handler, self)
        outside(Socket.new(:INET, :STREAM), EM.get_sockname(server))
      when :served_unix
        EM.start_unix_domain_server(path = "#{@folder}/#{number}", handler, self)
        outside(Socket.new(:UNIX, :STREAM), Socket.sockaddr_un(path))
      when :client
        listener = TCPServer.new("127.0.0.1", 0)
        EM.connect("127.0.0.1", listener.local_address.ip_port, handler, self)
        peer(listener.accept)
      else
        ours, theirs = UNIXSocket.pair
        @attached = EM.attach(ours, handler, self)
        peer(theirs)
      end
    end

    def connection = @connections.first

    def send = connection.send_data(data).zero?
    def close = connection.close_connection
    def close_after = connection.send_data(data).zero? || connection.close_connection_after_writing
    def pause = connection.pause
    def resume = connection.resume
    def asks = connection.armed != :detached && connection.trace.call("state", connection.paused?, connection.error?)
    def peer_sends = @peer.write(data(SMALL)) && nil
    def peer_ends = @peer.close_write && nil
    def peer_closes = @peer.look.then { @peer.close } && nil
    def peer_resets = @peer.reset && nil
    def raises = arm { raise "story #{story.number}" }
    def closes_in_callback = arm { close_connection }
    def closes_after_in_callback = arm { send_data("bye") && close_connection_after_writing }
    def pauses_in_callback = arm { pause }
    def sends_in_callback = arm { send_data("answer") }

    def detaches
      return if @attached || connection.armed == :detached

      connection.armed = :detached
      connection.define_singleton_method(:act) { nil }
      descriptor = connection.detach
      return unless descriptor.is_a?(Integer)

      io = Socket.for_fd(descriptor)
      EM.next_tick { EM.next_tick { io.write_nonblock("detached") rescue nil } }
      nil
    end

    private

    def arm(&action)
      connection.armed = action unless connection.armed == :detached
      @peer.write("x\n")
      nil
    end
  end

  # Lines and texts of a given size.
  class LineBased < Connected
    def handler = Lines

    def steps = %i[peer_lines peer_lines peer_half binary delimiter raises closes_in_callback peer_sends peer_ends send pause resume]

    def peer_lines = @peer.write(Array.new(@random.rand(1..5)) { "#{"l" * @random.rand(20)}#{any(["\n", "\r\n", "|"])}" }.join) && nil
    def peer_half = @peer.write("half") && nil
    def binary = arm { set_binary_mode(7) }
    def delimiter = connection.set_delimiter(any(["\n", "|", "ab"])) && nil
  end

  # A connection that passes its input to another.
  class Proxied < Connected
    def steps = %i[peer_sends peer_sends proxy proxy_length stop_proxy close_target peer_closes peer_ends close bytes send_to_target]

    def open
      super
      ours, theirs = UNIXSocket.pair
      @target = EM.attach(ours, Plain, self)
      @second = Peer.new(trace("second peer"), theirs)
      @peers << @second
    end

    def connection = @connections.find { |one| !one.equal?(@target) }
    def proxy = EM.enable_proxy(connection, @target)
    def proxy_length = EM.enable_proxy(connection, @target, 0, any([5, 100]))
    def stop_proxy = connection.stop_proxying
    def close_target = @target.close_connection
    def send_to_target = @second.write("to the target") && nil
    def bytes = connection.trace.call("proxied", connection.get_proxied_bytes)
  end

  # Datagrams between two sockets.
  class Datagrams < Story
    def steps = %i[send send send_many answer close raises]

    def open
      @one, @two = Array.new(2) { EM.open_datagram_socket("127.0.0.1", 0, Plain, self) }
      @port = Socket.unpack_sockaddr_in(@two.get_sockname).first
    end

    def send(text = data([0, 1, 500, 9000])) = @one.send_datagram(text, "127.0.0.1", @port) && nil
    def send_many = 5.times { send } && nil
    def close = @two.close_connection

    def answer
      @two.armed = -> { send_data("answer") }
      send("question")
    end

    def raises
      number = self.number
      @two.armed = -> { raise "story #{number}" }
      send("raise")
    end
  end

  # Timers, ticks and deferred work that start each other.
  class Ticking < Story
    def steps = %i[tree tree tree periodic deferred]

    def open = @order = trace("order")

    def tree = start(grow(any(%i[tick timer]), 0))

    def deferred
      result = trace("deferred")
      fails = any([true, false])
      EM.defer(-> { fails ? raise("no") : 1 }, ->(value) { result.call("value", value) }, ->(error) { result.call("error", error) })
      nil
    end

    def periodic
      left = @random.rand(1..3)
      id = @random.rand(1000)
      timer = EM.add_periodic_timer(0.001) { @order.call("periodic", id, left -= 1) && left < 1 && timer.cancel }
      nil
    end

    private

    def grow(kind, depth)
      below = Array.new(depth > 3 ? 0 : @random.rand(3)) { grow(kind == :timer ? :tick : any(%i[tick timer]), depth + 1) }
      [kind, @random.rand(100_000), below, kind == :timer && @random.rand(6).zero?]
    end

    def start((kind, id, below, fails))
      code = lambda do |*|
        @order.call(kind, id)
        below.each { |one| start(one) }
        raise "story #{number}" if fails
      end
      kind == :tick ? EM.next_tick(code) : EM.add_timer(0, code)
      nil
    end
  end

  # Files that are sent.
  class Files < Connected
    def steps = %i[file stream stream_chunks send missing close_after peer_closes]

    def file = connection.send_file_data(path_of(any([0, 10, 30_000]))) && nil
    def missing = connection.stream_file_data("#{@folder}/missing").errback { connection.trace.call("file missing") } && nil
    def stream = streamed({})
    def stream_chunks = streamed({ http_chunks: true })

    private

    def streamed(options)
      return if connection.send_data("").negative?

      streamer = connection.stream_file_data(path_of(any([*(0 if options.empty?), 10, 16_384, 20_000, 250_000])), options)
      streamer.callback { connection.trace.call("streamed") }
      nil
    end

    def path_of(size) = "#{@folder}/file#{size}".tap { |path| File.binwrite(path, BYTES.byteslice(0, size)) unless File.exist?(path) }
  end

  # A pipe that is attached or watched.
  class Pipes < Connected
    def steps = %i[peer_sends peer_sends peer_closes raises] + (@watched ? %i[detaches_in_callback quiet loud] : %i[pause resume])

    def open
      reader, writer = IO.pipe
      @watched = any([true, false])
      @watched ? EM.watch(reader, Watching, self).notify_readable = true : EM.attach(reader, Plain, self)
      peer(writer)
    end

    def look; end
    def detaches_in_callback = arm { detach && nil }
    def quiet = connection.notify_readable = false
    def loud = (connection.notify_readable = true) && nil
  end

  # A child that sends back what it gets.
  class Children < Connected
    def steps = %i[send_small send_small ends raises_here]

    def open
      command = any(["cat", "sh -c 'cat; exit 3'", "sh -c 'head -c 3; exit 1'", "/no/such/program"])
      EM.popen(command, Child, self)
    end

    def send_small = connection.send_data(data(SMALL)).zero?
    def ends = connection.close_connection_after_writing
    def raises_here = connection.armed = -> { raise "story #{story.number}" }

    # The original on a newer Ruby cannot tell its exit status.
    class Child < Plain
      def unbind(*) = trace.call("unbind")
    end
  end

  # Both ends of a TLS connection.
  class Secure < Story
    def steps = %i[send answer pause resume close close_after raises]

    def open
      files = self.class.files(@folder)
      server = EM.start_server("127.0.0.1", 0, Plain, self) { |connection| (@two = connection).start_tls(files) }
      @one = EM.connect("127.0.0.1", Socket.unpack_sockaddr_in(EM.get_sockname(server)).first, Plain, self)
      @one.define_singleton_method(:connection_completed) { super().then { start_tls } }
    end

    # The handshake has a step of its own.
    def step = @log.one? ? @log << "handshake" : super

    def self.files(folder)
      @files ||= begin
        key = OpenSSL::PKey::RSA.new(2048)
        certificate = OpenSSL::X509::Certificate.new
        certificate.subject = certificate.issuer = OpenSSL::X509::Name.parse("/CN=localhost")
        certificate.public_key, certificate.serial, certificate.version = key.public_key, 1, 2
        certificate.not_before, certificate.not_after = Time.now - 60, Time.now + 3600
        certificate.sign(key, "SHA256")
        { private_key_file: key, cert_chain_file: certificate }.to_h do |name, object|
          [name, "#{folder}/#{name}".tap { |path| File.write(path, object.to_pem) }]
        end
      end
    end

    def send = @one.send_data(data).zero?
    def answer = @two&.send_data(data)&.zero?
    def pause = @two&.pause
    def resume = @two&.resume
    def close = @one.close_connection
    def close_after = @one.send_data(data).zero? || @one.close_connection_after_writing

    def raises
      number = self.number
      @two&.armed = -> { raise "story #{number}" }
      @one.send_data("raise").zero?
    end
  end

  # Children of a reactor: `fork_reactor` and a plain fork that runs a reactor of its own. In the
  # original a child's first act closes its parent's connections, so that these programs have only
  # timers, ticks, deferred work and a server, whose connections are over at each fork; and they run
  # in a process of their own. A child tells what it does through a pipe.
  class Forks < Story
    def steps = %i[fork_reactor fork_reactor plain_fork connect tick timer deferred]

    def open
      @ticks, @timers = trace("ticks"), trace("timers")
      @path = "#{@folder}/forks#{number}"
      EM.start_unix_domain_server(@path, Plain, self)
      tick
    end

    def tick = later { |id| EM.next_tick { @ticks.call(id) } }
    def timer = later { |id| EM.add_timer(0.01) { @timers.call(id) } }
    def deferred = later { |id| EM.defer(-> { id }, ->(value) { @ticks.call("deferred", value) }) }

    # A connection from outside, which is over before the next step.
    def connect
      outside = UNIXSocket.new(@path)
      outside.write("hello")
      EM.add_timer(0.02) { outside.close }
      nil
    end

    def fork_reactor = child { |work| EM.fork_reactor(&work) }

    def plain_fork
      child do |work|
        fork do
          EM.run(&work)
        ensure
          exit!(0)
        end
      end
    end

    private

    def later
      yield @random.rand(1000)
      nil
    end

    # Leaves the parent's pending work to the parent.
    def child
      tick
      timer
      acts = Array.new(@random.rand(1..4)) { any(%i[tick timer defer serve popen]) }
      reader, writer = IO.pipe
      peer(reader)
      yield -> { work(acts, writer) }
      writer.close
      nil
    end

    # Ends when all acts have called back, in any order.
    def work(acts, writer)
      @ticks = @timers = @main = Trace.new
      seen = []
      state = [EM.reactor_running?, EM.reactor_thread?, EM.connection_count]
      over = lambda do |*words|
        next if (seen << words.join(" ")).size < acts.size

        EM.add_timer(0.03) do
          writer.puts([state, seen.sort, @ticks].to_json)
          EM.stop
        end
      end
      acts.each { |act| __send__(:"child_#{act}", over) }
    end

    def child_tick(over) = EM.next_tick { over.call("ticked") }
    def child_timer(over) = EM.add_timer(0.005) { over.call("timed") }
    def child_defer(over) = EM.defer(-> { 1 }, ->(value) { over.call("deferred", value) })

    def child_serve(over)
      path = "#{@path}.#{Process.pid}.#{EM.connection_count}.#{@served = @served.to_i + 1}"
      EM.start_unix_domain_server(path, Module.new { def receive_data(data) = send_data(data.upcase) && close_connection_after_writing })
      EM.connect_unix_domain(path, Module.new { define_method(:receive_data) { |data| over.call("served", data) } }).send_data("question")
    end

    def child_popen(over) = EM.popen("echo child", Module.new { define_method(:receive_data) { |data| over.call(data) } })
  end

  KINDS = [Connected, Connected, Connected, LineBased, Proxied, Datagrams, Ticking, Ticking, Files, Pipes, Children, Secure].freeze

  module_function

  def run(seed, step_s, numbers)
    errors = Hash.new(0)
    EM.error_handler { |error| errors[error.message[/\Astory (\d+)\z/, 1] || raise(error)] += 1 }
    Dir.mktmpdir do |folder|
      stories = numbers.map { |number| (number.negative? ? Forks : KINDS[number % KINDS.size]).new(seed, number, folder) }
      EM.run do
        EM.set_quantum(10)
        take(stories, STEPS, step_s)
      end
      stories.each do |story|
        story.look
        puts JSON.generate({ number: story.number, kind: story.class.name[/\w+\z/], steps: story.log, errors: errors[story.number.to_s],
                             traces: story.traces })
      end
    end
  end

  def take(stories, left, step_s)
    stories.each(&(left.zero? ? :look : :step))
    return EM.add_timer(step_s) { EM.stop } if left.zero?

    LOOKS.times { |look| EM.add_timer(step_s * (look + 1) / (LOOKS + 1)) { stories.each(&:look) } }
    EM.add_timer(step_s) { take(stories, left - 1, step_s) }
  end
end

require "openssl"
$stdout.sync = true
EventMachineStories.run(Integer(ARGV[0]), Float(ARGV[1]), ARGV.drop(2).map { |number| Integer(number) })
