# frozen_string_literal: true

# Shows which code it runs on. Changed by the test.
class VersionChannel < ActionCable::Channel::Base
  def self.number = 1

  def subscribed = stream_from("versions")

  def say = ActionCable.server.broadcast("versions", self.class.number)

  # Counts the cables that are sockets of the server.
  def open = transmit(Gyre::Web::Cable.figures["open"])

  # Its class must be the same before and after the wait, whatever changes meanwhile.
  def wait
    File.write(Rails.root.join("waiting"), "")
    sleep 0.01 until Rails.root.join("go").exist?
    transmit([self.class.number, VersionChannel.equal?(self.class)])
  end
end
