# frozen_string_literal: true

# The servers of bench/loop: "Hello, world!" over keep-alive HTTP, each on one kind of event loop,
# all with the same reading, parsing and writing, so that the loop is what differs. Gyre's and
# Ever's are one program. Arguments: a loop (gyre, ever, nio4r), a variant (single, watches,
# workers-N, queues-N), a port.

require "socket"

# A client; reads what has come, and answers when a request's head is complete.
class Connection
  RESPONSE = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, world!"
  BLANK_LINE = "\r\n\r\n"

  attr_reader :io
  attr_accessor :monitor

  def initialize(io)
    @io = io
    @rest = nil
    @buffer = String.new(capacity: 16_384)
  end

  def step
    bytes = @io.read_nonblock(16_384, @buffer, exception: false)
    return :read if bytes == :wait_readable
    return :close if bytes.nil?

    unless @rest.nil?
      bytes = @rest << bytes
      @rest = nil
    end
    unless bytes.end_with?(BLANK_LINE)
      @rest = bytes.dup
      return :read
    end
    @io.write_nonblock(RESPONSE, exception: false) == :wait_writable ? :write : :read
  rescue SystemCallError, IOError
    :close
  end
end

# As Ever's examples do it: handlers emit what is to be watched and closed. Commands come back as
# events.
class KeyedServer
  def initialize(loop, server, jobs)
    @loop = loop
    @server = server
    @jobs = jobs
  end

  def run
    @loop.watch_io(:accept, @server, false, false)
    @loop.each do |event|
      case event
      when Connection then @jobs ? @jobs.call(event) : handle(event)
      when :accept
        io = @server.accept_nonblock(exception: false)
        @loop.emit([:watch_io, Connection.new(io), false, true]) unless io == :wait_readable
      when Array
        if event[0] == :watch_io
          @loop.watch_io(event[1], event[1].io, event[2], event[3])
        else
          event[1].io.close
        end
      end
    end
  end

  def handle(connection)
    case connection.step
    when :read then @loop.emit([:watch_io, connection, false, true])
    when :write then @loop.emit([:watch_io, connection, true, true])
    else @loop.emit([:close, connection])
    end
  end
end

# Persistent watches: nothing is watched again as long as a connection reads.
class WatchesServer
  def initialize(loop, server)
    @loop = loop
    @server = server
  end

  def run
    @loop.watch_io(:accept, @server, false, false)
    @loop.each do |event|
      if event == :accept
        io = @server.accept_nonblock(exception: false)
        next if io == :wait_readable

        connection = Connection.new(io)
        @loop.watch_io(connection, io, false, false)
      elsif event.step == :close
        @loop.unwatch(event)
        event.io.close
      end
    end
  end
end

# As the nio4r examples that come with Ever do it: a new monitor for each wait.
class SelectorServer
  def initialize(server, jobs)
    @selector = NIO::Selector.new
    @server = server
    @jobs = jobs
    @commands = Queue.new
    @reader, @writer = IO.pipe
  end

  def run
    @selector.register(@server, :r)
    @selector.register(@reader, :r)
    loop do
      @selector.select do |monitor|
        if monitor.io.equal?(@server)
          io = @server.accept_nonblock(exception: false)
          watch(Connection.new(io), :r) unless io == :wait_readable
        elsif monitor.io.equal?(@reader)
          @reader.read_nonblock(4096, exception: false)
          obey(*@commands.pop) until @commands.empty?
        else
          take(monitor.value)
        end
      end
    end
  end

  # In a worker's thread.
  def handle(connection)
    @commands << [connection, connection.step]
    @writer << "."
  end

  private

  # A worker's connection is not watched meanwhile, or it would be reported again and again.
  def take(connection)
    return obey(connection, connection.step) unless @jobs

    connection.monitor.close
    connection.monitor = nil
    @jobs.call(connection)
  end

  def obey(connection, step)
    case step
    when :read then watch(connection, :r)
    when :write then watch(connection, :w)
    else
      connection.monitor&.close
      connection.io.close
    end
  end

  def watch(connection, interest)
    connection.monitor&.close
    connection.monitor = @selector.register(connection.io, interest)
    connection.monitor.value = connection
  end
end

name, variant, port = ARGV
server = TCPServer.new("127.0.0.1", Integer(port))
server.listen(4096)
kind, count = variant.split("-")
queues = Array.new(kind == "queues" ? Integer(count) : 1) { Queue.new }
jobs = count && (queues.size == 1 ? ->(job) { queues.first << job } : ->(job) { queues.sample << job })

program =
  case name
  when "gyre"
    require "gyre/loop"
    kind == "watches" ? WatchesServer.new(Gyre::Loop.new, server) : KeyedServer.new(Gyre::Loop.new, server, jobs)
  when "ever"
    require "ever"
    KeyedServer.new(Ever::Loop.new, server, jobs)
  when "nio4r"
    require "nio"
    SelectorServer.new(server, jobs)
  end
Array.new(count.to_i) { |index| Thread.new { program.handle(queues[index % queues.size].pop) while true } }
program.run
