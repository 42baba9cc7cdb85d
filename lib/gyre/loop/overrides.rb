# frozen_string_literal: true

# Lets a program's subclass of Gyre::Loop or Gyre::Scheduler override methods of the portable
# engine. Ruby finds the methods of a module that extends an object before those of its class: so a
# method that the subclass has, too, is sent on to it from the object, and `super` in it comes back
# to the module. Called when a loop or a scheduler is made; on the native engine Ruby does all of
# this by itself.

module Gyre
  class Loop
    module Overrides
      # Stands between a subclass and its superclass, for all objects of the subclass.
      class WayBack < Module
      end

      # @param object [Loop, Scheduler]
      # @param engine [Module] extends it
      # @param base [Class] the program's subclasses are below it
      def self.install(object, engine, base)
        object.extend(engine)
        subclasses = object.class.ancestors.take_while { |ancestor| !ancestor.equal?(base) }
        names = engine.instance_methods.select { |name| subclasses.any? { |one| one.method_defined?(name, false) } }
        return if names.empty?

        way_back = way_back_of(subclasses.grep(Class).last)
        names.each do |name|
          forward(object.singleton_class, name, "self.class.instance_method(:#{name}).bind_call(self, *arguments, **options, &block)")
          forward(way_back, name, "is_a?(#{engine}) ? #{engine}.instance_method(:#{name}).bind_call(self, *arguments, **options, &block) : super")
        end
      end

      # @param subclass [Class] the topmost one
      # @return [WayBack]
      def self.way_back_of(subclass)
        subclass.ancestors.grep(WayBack).first || WayBack.new.tap { |way| subclass.include(way) }
      end

      # As text, because a Ractor calls no method that a block defines.
      def self.forward(owner, name, code)
        return if owner.method_defined?(name, false)

        owner.class_eval("def #{name}(*arguments, **options, &block)\n#{code}\nend", __FILE__, __LINE__)
      end
      private_class_method :way_back_of, :forward
    end
  end
end
