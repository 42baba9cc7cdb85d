# frozen_string_literal: true

# The oracle's memcached: commands in, replies out, values in a Hash; no socket, no clock. It knows
# what tests of a client need, and nothing of eviction or time.

require_relative "commands"

module MemcachedOracle
  # One memory, whatever the connections.
  class Server
    Item = Struct.new(:data, :flags, :cas, :promised)

    attr_reader :items

    def initialize
      @items = {}
      @cas = 0
    end

    # Returns its reply; empty where it is quiet.
    def reply(command)
      reply = respond(command)
      quiet = command.quiet? && (command.name == "mg" ? reply.start_with?("EN") : reply.start_with?("HD"))
      quiet ? "" : reply
    end

    def store(key, data, flags)
      @items[key] = Item.new(data, flags, @cas += 1)
    end

    private

    def respond(command)
      case command.name
      when "mg" then get(command)
      when "ms" then set(command)
      when "md" then delete(command)
      when "ma" then arithmetic(command)
      when "mn" then "MN\r\n"
      when "version" then "VERSION 1.6.18\r\n"
      when "stats" then "STAT pid 1\r\nSTAT version 1.6.18\r\nEND\r\n"
      when "flush_all" then @items.clear && "OK\r\n"
      when "set" then "STORED\r\n" # a user's name and password
      else "ERROR\r\n"
      end
    end

    def get(command)
      item = @items[command.key]
      if item.nil? && command.flags.key?("N")
        item = store(command.key, "", 0)
        item.promised = true
        token = " W"
      end
      return "EN#{echo(command, nil)}\r\n" unless item

      token ||= " Z" if item.promised
      words = "#{echo(command, item)}#{token}"
      command.flags.key?("v") ? "VA #{item.data.bytesize}#{words}\r\n".b << item.data << "\r\n" : "HD#{words}\r\n"
    end

    def set(command)
      item = @items[command.key]
      compared = compared(command, item)
      return "#{compared}#{echo(command, item)}\r\n" if compared

      mode = command.flags.fetch("M", "S").upcase
      return "NS#{echo(command, item)}\r\n" if mode == "E" ? item : mode != "S" && item.nil?

      "HD#{echo(command, joined(mode, command, item))}\r\n"
    end

    # What is appended or prepended leaves the item its flags.
    def joined(mode, command, item)
      case mode
      when "A" then store(command.key, item.data + command.data, item.flags)
      when "P" then store(command.key, command.data + item.data, item.flags)
      else store(command.key, command.data, command.flags.fetch("F", 0).to_i)
      end
    end

    def delete(command)
      item = @items[command.key]
      compared = compared(command, item)
      return "#{compared}#{echo(command, item)}\r\n" if compared

      "#{@items.delete(command.key) ? "HD" : "NF"}#{echo(command, item)}\r\n"
    end

    def arithmetic(command)
      item = @items[command.key]
      if item
        return "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n" unless item.data.match?(/\A\d{1,20} *\z/)

        item = store(command.key, count(item.data.to_i, command).to_s, item.flags)
      elsif command.flags.key?("N")
        item = store(command.key, command.flags.fetch("J", 0).to_i.to_s, 0)
      else
        return "NF#{echo(command, nil)}\r\n"
      end
      command.flags.key?("v") ? "VA #{item.data.bytesize}#{echo(command, item)}\r\n#{item.data}\r\n" : "HD#{echo(command, item)}\r\n"
    end

    def count(number, command)
      delta = command.flags.fetch("D", 1).to_i
      %w[D d -].include?(command.flags["M"]&.slice(0)) ? [number - delta, 0].max : (number + delta) % 2**64
    end

    def compared(command, item)
      cas = command.flags["C"] or return
      return "NF" unless item

      "EX" if item.cas != cas.to_i
    end

    # The flags that ask for something, in the order in which they came.
    def echo(command, item)
      command.flags.filter_map do |letter, rest|
        case letter
        when "O" then " O#{rest}"
        when "k" then " k#{command.flags.key?("b") ? [command.key].pack("m0") : command.key}"
        when "b" then " b"
        when "c" then " c#{item.cas}" if item
        when "f" then " f#{item.flags}" if item
        when "s" then " s#{item.data.bytesize}" if item
        when "t" then " t-1" if item
        end
      end.join
    end
  end
end
