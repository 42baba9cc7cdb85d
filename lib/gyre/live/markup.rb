# frozen_string_literal: true

# Trusted HTML, and templates that escape all values that are not trusted HTML.

require "erb"

module Gyre
  class Live
    # HTML that is safe to send.
    class Markup
      # @param value [Object] escaped unless it is Markup or Rails' html_safe
      # @return [Markup]
      def self.of(value)
        return value if value.is_a?(Markup)

        new(value.respond_to?(:html_safe?) && value.html_safe? ? value.to_s : ERB::Util.html_escape(value.to_s))
      end

      # @param html [String]
      def initialize(html)
        @html = String.new(html)
      end

      # @return [String]
      def to_s = @html

      # ERB that escapes values of <%= %> and returns Markup.
      # @api private
      class Template < ERB
        # Passes values of <%= %> to {Markup.of} instead of calling to_s.
        class Compiler < ERB::Compiler
          def add_insert_cmd(out, content) = out.push("_erbout << ::Gyre::Live::Markup.of((#{content})).to_s")
        end
        private_constant :Compiler

        def initialize(source) = super(source, trim_mode: "<>")

        def make_compiler(trim_mode) = Compiler.new(trim_mode)

        def set_eoutvar(compiler, name = "_erbout")
          super
          compiler.post_cmd = ["::Gyre::Live::Markup.new(#{name})"]
        end
      end
    end
  end
end
