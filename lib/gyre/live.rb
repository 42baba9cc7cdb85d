# frozen_string_literal: true

# Live pages: the server keeps and renders views. The browser sends events over a WebSocket and gets
# changed lines back. Page runs a view on the server; script.js runs in the browser.

require "gyre/live/markup"
require "gyre/live/page"
require "gyre/live/state"

module Gyre
  # A page whose state lives on the server. Each subclass is a Rack app.
  #
  #   class Counter < Gyre::Live
  #     keep :count
  #     on(:more) { |by| @count += Integer(by) }
  #     template <<~ERB
  #       <p><%= @count %></p>
  #       <button live-click="more" value="1">more</button>
  #     ERB
  #
  #     def mount(_env) = @count = 0
  #   end
  #
  #   run Counter
  #
  # A page's handlers, {#mount}, {#render}, and blocks of {#subscribe} and {#every} run one at a
  # time.
  class Live
    SCRIPT = File.read(File.join(__dir__, "live/script.js")).freeze
    MESSAGE_BYTES_LIMIT = 1 << 20
    private_constant :SCRIPT, :MESSAGE_BYTES_LIMIT

    class << self
      # Returns the key that signs kept variables. It must be the same in all processes and after a
      # restart. The default is random, so that pages lose their state when the server ends.
      # @return [String]
      def secret = State.secret

      # @param secret [String] at least 32 bytes
      def secret=(secret)
        State.secret = secret
      end

      # Serves the page, and its socket at the same path.
      # @param env [Hash] of Rack
      # @return [Array] status, headers, body
      def call(env)
        return WebSocket.open(env, Page.new(self, env), message_bytes_limit: MESSAGE_BYTES_LIMIT) if WebSocket.requested?(env)

        nonce = SecureRandom.base64(16)
        view = new
        view.prepare(env)
        policy = "script-src 'nonce-#{nonce}' 'strict-dynamic'; object-src 'none'; base-uri 'none'"
        [200, { "content-type" => "text/html; charset=utf-8", "cache-control" => "no-store", "content-security-policy" => policy },
         [view.document(view.embed(nonce: nonce)).to_s]]
      end

      # Returns the view's element and script, to embed in another page.
      # @param env [Hash] of the request
      # @param at [String] this class's path
      # @param nonce [String, nil] of the page's content security policy
      # @return [Markup]
      def embed(env, at:, nonce: nil) = new.tap { |view| view.prepare(env) }.embed(at: at, nonce: nonce)

      # Defines the handler of an event of the page.
      # @param event [Symbol] the name in live-click, live-change, live-input, live-submit, …
      # @yieldparam value [String, Hash] the element's value, the key, or the form's fields
      # @return [Symbol]
      def on(event, &block)
        handlers[event.to_s] = block
        event
      end

      # Names instance variables that outlive the connection. The browser keeps them, signed but
      # readable.
      # @param names [Array<Symbol>] of variables with JSON values
      def keep(*names) = kept.concat(names.map { |name| :"@#{name}" })

      # Defines {#render} by an ERB template that escapes <%= %>.
      # @param source [String]
      def template(source) = define_markup("render", source)

      # Defines {#document} by an ERB template, in which <%= live %> inserts the view.
      # @param source [String]
      def layout(source) = define_markup("document(live)", source)

      # @api private
      def handlers = @handlers ||= superclass == Live ? {} : superclass.handlers.dup

      # @api private
      def kept = @kept ||= superclass == Live ? [] : superclass.kept.dup

      private

      def define_markup(method, source)
        code = Markup::Template.new(source).src.sub(/\A#.*\n/, "")
        class_eval("def #{method}\n#{code}\nend", "#{method} of #{name || "a view"}", 0)
      end
    end

    # @!method document(live)
    #   @param live [Markup] the view
    #   @return [Markup] the whole page
    layout <<~ERB
      <!DOCTYPE html>
      <html lang="en">
      <meta charset="utf-8">
      <meta name="viewport" content="width=device-width">
      <meta name="color-scheme" content="light dark">
      <title><%= self.class.name %></title>
      <%= live %>
      </html>
    ERB

    # Sets the state. Called before the first rendering, and when the socket opens, before kept
    # variables get the page's values.
    # @param env [Hash] of the request, with its session and cookies
    def mount(env); end

    # Called when the page's socket has closed.
    def unmount; end

    # @return [Markup, String] Strings are escaped
    def render = raise(NotImplementedError, "#{self.class} needs a template or render")

    # @param markup [String] trusted HTML
    # @return [Markup]
    def raw(markup) = Markup.new(markup)

    # @return [Boolean] false in the first rendering
    def connected? = !@page.nil?

    # Runs the block between handlers, soon, to change the state. Any fiber or thread may call it,
    # also another page's handler.
    # @return [nil]
    def update(&block) = @page&.update(&block)

    # Runs the block for each message of the topic ({Broadcast.publish}), while the page is open.
    # @param as (see Gyre::Broadcast.subscribe)
    # @yieldparam message [String]
    # @return [nil]
    def subscribe(topic, as: nil, &block) = @page&.subscribe(topic, block || proc {}, as)

    # Ends {#subscribe}.
    # @return [nil]
    def unsubscribe(topic) = @page&.unsubscribe(topic)

    # Runs the block repeatedly, while the page is open.
    # @param seconds [Numeric]
    # @return [nil]
    def every(seconds, &block) = @page&.every(seconds, block)

    # @api private
    attr_writer :page

    # @api private
    def handle(event, value)
      handler = self.class.handlers[event] or return false
      instance_exec(value, &handler)
      true
    end

    # @api private
    def rendered = Markup.of(render).to_s

    # Sets the state for the first rendering.
    # @api private
    def prepare(env)
      mount(env)
      @first = [State.scope(env), State.digests(kept_values)]
    end

    # @api private
    def kept_values = self.class.kept.to_h { |name| [name, instance_variable_get(name)] }

    # @api private
    def token(scope, mounted)
      State.sign(self.class, scope, kept_values, mounted).tap do |token|
        limit = MESSAGE_BYTES_LIMIT - 1024
        raise ArgumentError, "the kept variables of #{self.class} take #{token.bytesize} bytes; the limit is #{limit}" if token.bytesize > limit
      end
    end

    # @api private
    def restore(token, scope, mounted)
      State.verify(self.class, scope, token, mounted).each do |name, value|
        instance_variable_set(name, value) if self.class.kept.include?(name.to_sym)
      end
    end

    # @api private
    def embed(at: nil, nonce: nil)
      html = rendered # first, because it may set a kept variable for the first time
      attributes = { "data-at" => at, "data-state" => token(*@first) }.compact
      attributes = attributes.map { |name, value| %( #{name}="#{ERB::Util.html_escape(value)}") }.join
      Markup.new("<live-view#{attributes}>#{html}</live-view>\n<script#{%( nonce="#{nonce}") if nonce}>#{SCRIPT}</script>\n")
    end
  end
end
