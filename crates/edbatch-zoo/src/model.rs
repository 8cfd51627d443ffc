//! The parts that all models of the zoo share: a network, and its kinds, which wire an input.

use edbatch_models::BuildError;

/// The result of wiring an input.
pub(crate) type Built = Result<(), BuildError>;

/// Defines a model: `pub struct Name: Kinds, Sizes, Input, work`.
///
/// The function `declare` of the same file adds the cells to a network of these sizes and returns
/// the kinds. `work` returns the work of an input. If a method of the kinds follows, it returns the
/// bytes of an input.
macro_rules! model {
    (
        $(#[$doc:meta])*
        pub struct $model:ident: $kinds:ty, $sizes:ty, $input:ty, $work:expr
        $(, $bytes:ident)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $model {
            pub(crate) network: std::sync::Arc<Network>,
            pub(crate) kinds: $kinds,
        }

        impl $model {
            /// Declares the cells.
            ///
            /// # Errors
            /// If a size is zero or too large, or does not fit the others.
            pub fn new(sizes: $sizes) -> Result<Self, CellError> {
                let mut network = Network::new();
                let kinds = declare(&mut network, sizes)?;
                Ok(Self { network: network.into(), kinds })
            }
        }

        impl edbatch_models::Model for $model {
            type Input = $input;

            fn network(&self) -> &std::sync::Arc<Network> {
                &self.network
            }

            fn work(&self, input: &$input) -> usize {
                $work(input)
            }

            $(fn bytes(&self, input: &$input) -> usize {
                self.kinds.$bytes(&self.network, input)
            })?

            async fn build(
                &self,
                build: &edbatch_models::Build<'_>,
                input: &$input,
            ) -> crate::model::Built {
                self.kinds.build(build, input).await
            }
        }
    };
}
pub(crate) use model;
