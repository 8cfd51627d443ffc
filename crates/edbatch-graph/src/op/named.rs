//! Enums whose variants have a name each.

/// Declares an enum, with a list of its variants and a name for each. Files and messages have these
/// names; `Display` prints them.
macro_rules! named {
    ($(#[$doc:meta])* pub enum $Type:ident {
        $($(#[$variant_doc:meta])* $Variant:ident = $name:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $Type { $($(#[$variant_doc])* $Variant,)* }

        impl $Type {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$Variant),*];

            /// Returns the name in files and in messages.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$Variant => $name),* }
            }
        }

        impl std::fmt::Display for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

pub(super) use named;
