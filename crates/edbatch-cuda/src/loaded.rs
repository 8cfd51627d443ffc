//! A program on a device: its compiled kernels, weights and folded tables.

use std::path::PathBuf;
use std::sync::Arc;

use edbatch_layout::Program;
use edbatch_runtime::{BackendError, Parameters};

use super::binary::ResourceUsage;
use super::command_list::{CommandList, Givens};
use super::compilation::OnCompile;
use super::device::{Arguments, Device, GRIDS, Kernel, MemorySide, Properties, Source, TeamPart};
use super::pass::{Pass, Placed, copied};
use super::phase_table::{PhaseTable, SMS, Way};
use super::place::{Placer, recurrent};
use super::reads::Reads;
use super::shapes::shared_bytes;
use super::source::{Tiles, source};
use super::store::{Key, Store};
use super::team_pool::TeamKernel;
use super::unit_tile::UnitTile;
use super::weights::WeightLayout;
use super::{CudaError, CudaOptions, nvrtc};

/// A program on a device, shared by all slots and forks on that device.
pub(super) struct Loaded<D: Device> {
    pub(super) device: Arc<D>,
    pub(super) program: Arc<Program>,
    /// The pass that [`Backend::run`](edbatch_runtime::Backend::run) runs.
    pub(super) pass: Arc<Pass<D>>,
    pub(super) weights: D::Memory,
    /// The folded tables, followed by the scratch that was used to compute them.
    pub(super) folded: Option<D::Memory>,
    /// The bytes of weights and folded tables.
    pub(super) weight_bytes: usize,
}

/// A program's generated source, before it is compiled.
pub(super) struct Generated {
    layout: WeightLayout,
    pub(super) source: Source,
    pub(super) placer: Placer,
}

/// A program's kernels for an architecture.
#[derive(Debug)]
#[non_exhaustive]
pub struct CompiledKernels {
    /// Bytes of machine code.
    pub bytes: usize,
    /// Lines of PTX of the longest function: the compile time grows with it.
    pub longest_function: usize,
    /// The resource usage of the kernel, or `None` if the compiler's log does not contain it.
    pub usage: Option<ResourceUsage>,
    code: Vec<u8>,
    pub(super) key: Key,
}

impl CompiledKernels {
    /// Compiles a source for an architecture. Drops a suffix of its name, as devices look for
    /// kernels without it: the kernels use no instruction that `sm_90a` has and `sm_90` lacks.
    pub(super) fn of(
        source: &Source,
        architecture: &str,
        on_compile: OnCompile,
    ) -> Result<Self, CudaError> {
        let architecture = architecture.trim_end_matches(|c: char| c.is_ascii_lowercase());
        let compiler = nvrtc::compiler()?;
        let binary = compiler.compile(source, architecture, on_compile)?;
        let key = Key::new(source, &nvrtc::OPTIONS, compiler.version, architecture);
        let (usage, longest_function) = (binary.usage(), binary.longest_function());
        Ok(Self { bytes: binary.code.len(), longest_function, usage, code: binary.code, key })
    }

    /// Stores the kernels in the user's cache, where [`nvidia`](super::nvidia()) finds them, and
    /// returns the file's path. Returns `None` if the user has no cache folder. A machine without
    /// a compiler can use a copy of the folder.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn store(&self) -> std::io::Result<Option<PathBuf>> {
        let store = Store::of_user();
        store.put(&self.key, &self.code)?;
        Ok(store.path(&self.key))
    }
}

/// Compiles a program's kernels for an architecture, such as `sm_90`. No device is needed.
///
/// # Errors
/// If NVRTC is not installed or does not support the architecture.
pub fn compile(
    program: &Program,
    options: &CudaOptions,
    architecture: &str,
) -> Result<CompiledKernels, CudaError> {
    let generated = Generated::new(program, options, None, architecture);
    CompiledKernels::of(&generated.source, architecture, options.on_compile)
}

/// Compiles the kernels of training that [`compile`] leaves out: the backward pass, sums of
/// gradients and updates. The program is [for training](Program::for_training).
///
/// # Errors
/// Like [`compile`].
pub fn compile_training(
    program: &Program,
    options: &CudaOptions,
    architecture: &str,
) -> Result<Vec<CompiledKernels>, CudaError> {
    let back = Generated::of(program, Way::Back, options, None, architecture).source;
    let grids = GRIDS.map(|text| Source { text: text.into(), kernel: Kernel::Grid });
    let sources = [back].into_iter().chain(grids);
    sources.map(|source| CompiledKernels::of(&source, architecture, options.on_compile)).collect()
}

/// Returns the C++ of a program's kernels for an H100. It includes the headers in `src/kernels` of
/// this crate.
///
/// # Errors
/// If the environment variable `EDBATCH_CUDA` is invalid.
pub fn kernel_source(program: &Program, options: &CudaOptions) -> Result<String, CudaError> {
    options.chosen_driver()?;
    Ok(Generated::new(program, options, None, "sm_90").source.text)
}

impl Generated {
    /// Generates the source of the forward pass. It depends on the device's architecture, and on
    /// its shared memory if that follows from no architecture.
    pub(super) fn new(
        program: &Program,
        options: &CudaOptions,
        properties: Option<&Properties>,
        architecture: &str,
    ) -> Self {
        Self::of(program, Way::Forward, options, properties, architecture)
    }

    /// Generates the source of a pass.
    pub(super) fn of(
        program: &Program,
        way: Way,
        options: &CudaOptions,
        properties: Option<&Properties>,
        architecture: &str,
    ) -> Self {
        let (sms, own_bytes) = properties.map_or((SMS, 0), |own| (own.sms, own.shared_bytes));
        let table = |way| PhaseTable::with_products(program, way, options.precision, sms);
        let passes = [Way::Forward, Way::Back].map(table);
        let mut layout = WeightLayout::new(program, &passes, options.precision);
        let known = shared_bytes(architecture).unwrap_or(own_bytes);
        let passes = passes.map(|phases| {
            let recurrent = recurrent(program, &phases).into_iter();
            let entries = recurrent.map(|(phase, _)| (phase, &phases.entries()[phase]));
            let tile = |own| UnitTile::of(program, own, known, options.precision);
            let mut all: Vec<UnitTile> = entries.filter_map(tile).collect();
            let cell = |tile: &UnitTile| phases.entries()[tile.phase].cell;
            let multiply: Vec<_> = all.iter().filter(|it| it.depth() > 0).map(cell).collect();
            all.retain(|tile| multiply.contains(&cell(tile)));
            let tiles = Tiles::new(program, &phases, &layout, all, options.precision);
            layout.add_tiles(program, &phases, tiles.phases());
            (phases, tiles)
        });
        let [forward, back] = passes;
        let (phases, tiles) = if way == Way::Forward { forward } else { back };
        let source = source(program, &phases, &layout, &tiles, options.precision);
        let mut tiles: Vec<_> = tiles.phases().cloned().collect();
        tiles.sort_by_key(|tile| tile.phase);
        let (shape, reads) = (options.shape, Reads::default());
        let placer = Placer { phases, tiles, sms, shared_bytes: own_bytes, shape, reads };
        Self { layout, source, placer }
    }
}

impl<D: Device> Loaded<D> {
    /// Compiles the kernel of a pass of a program, copies its parameters to a device, and computes
    /// the folded tables there. Also returns the layout of the weights.
    pub(super) fn of(
        device: Arc<D>,
        (program, way): (Arc<Program>, Way),
        parameters: &Parameters,
        options: &CudaOptions,
    ) -> Result<(Self, WeightLayout), BackendError> {
        let driver = options.chosen_driver()?;
        let properties = device.properties();
        let Generated { layout, source, placer } =
            Generated::of(&program, way, options, Some(properties), &properties.architecture);
        let pass = Pass::new(&*device, (&source, placer), driver, options.on_compile)?;
        let compiled = (device, program, Arc::new(pass));
        Ok((Self::with_parameters(compiled, &layout, parameters)?, layout))
    }

    /// Copies parameters of a program whose kernel has been compiled.
    pub(super) fn with_parameters(
        (device, program, pass): (Arc<D>, Arc<Program>, Arc<Pass<D>>),
        layout: &WeightLayout,
        parameters: &Parameters,
    ) -> Result<Self, BackendError> {
        let packed = layout.packed(program.network(), parameters)?;
        let weight_bytes = size_of_val(packed.as_slice());
        let weights = copied(&*device, &packed)?;
        drop(packed);
        let folded = None;
        let mut loaded = Self { device, program, pass, weights, folded, weight_bytes };
        loaded.fold_tables()?;
        Ok(loaded)
    }

    /// Returns the placement for the next launch.
    pub(super) fn placed(&self) -> Arc<Placed<D>> {
        self.pass.placed()
    }

    /// Returns the kernel of teams with a placement.
    pub(super) fn team_kernel<'a>(&'a self, placed: &'a Placed<D>) -> TeamKernel<'a, D> {
        self.pass.team_kernel(&self.device, placed)
    }

    /// Computes the program's folded tables.
    fn fold_tables(&mut self) -> Result<(), BackendError> {
        let plan = self.program.folding_plan();
        if plan.steps.is_empty() {
            return Ok(());
        }
        let (placed, mut commands) = (self.placed(), CommandList::default());
        // A wave for each step, so that all steps use the same scratch.
        let waves: Vec<u32> = (0..plan.steps.len() as u32).collect();
        commands.write_in_waves(
            &self.program,
            &placed.table,
            &plan,
            &waves,
            Givens::Host(0, &[]),
        )?;
        let device = &*self.device;
        let bytes = 4 * commands.words().len().next_multiple_of(4);
        let mut words = device.memory(bytes, MemorySide::Host)?;
        device.host_mut(&mut words)[..commands.words().len()].copy_from_slice(commands.words());
        let device_commands = device.memory(bytes, MemorySide::Device)?;
        let folded = device.memory(4 * commands.arena(), MemorySide::Device)?;
        let arguments = Arguments {
            commands: device.address(&words),
            arena: device.address(&folded),
            weights: device.address(&self.weights),
            ..Arguments::default()
        };
        let part = TeamPart::new(&commands, arguments, device.address(&device_commands), (0, 0));
        device.team_pool().run(&self.team_kernel(&placed), &[part])?;
        self.weight_bytes += 4 * commands.arena();
        self.folded = Some(folded);
        Ok(())
    }
}
