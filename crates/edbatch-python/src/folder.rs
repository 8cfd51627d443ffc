//! Models from folders, and folders of networks.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use edbatch::Loaded;
use edbatch::models::{Folder, FolderModel, Model, network_to_json};
use pyo3::prelude::*;

use crate::engine::Engine;
use crate::errors::{self, FileError};
use crate::inputs::Wirer;
use crate::network::Network;
use crate::options::{Device, Options};
use crate::weights::Weights;

/// Loads a model of the zoo or a network from its folder, as an engine. The inputs of a model are
/// lines of text, in the format of its reader. A network takes call lists, or lines of JSON.
/// Takes the options of Engine.
///
/// Raises FileError or WeightsError if a file is missing or invalid.
#[pyfunction]
#[pyo3(signature = (
    folder, /, *, threads=1, policy=None, memory_limit=None, fold_tables=0, counts=false,
    device="cpu", precision="f32"
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(crate) fn load(
    py: Python<'_>,
    folder: PathBuf,
    threads: usize,
    policy: Option<PathBuf>,
    memory_limit: Option<u64>,
    fold_tables: u64,
    counts: bool,
    device: &str,
    precision: &str,
) -> PyResult<Engine> {
    let device = Device::parse(device)?;
    let options = Options { threads, policy, memory_limit, fold_tables, counts, device, precision };
    let Loaded { folder, model, parameters } = edbatch::load(folder).map_err(errors::load)?;
    let declared = model.network().clone();
    let network = Py::new(py, Network::frozen(declared.clone()))?;
    Network::enter(network.bind(py))?;
    let (folder, pool) = (Some(folder), Mutex::default());
    let wirer = Wirer { network, build: None, work: None, folder, pool };
    let zoo = match model {
        FolderModel::Zoo(zoo) => Some(Arc::new(zoo)),
        FolderModel::Network(_) => None,
    };
    Engine::build(wirer, zoo, &declared, parameters, &options)
}

/// Writes a network and its weights as a folder that `load` and the command `edbatch` read:
/// `network.json` and `weights.safetensors`.
///
/// Raises WeightsError if the weights do not fit, and FileError if a file cannot be written.
#[pyfunction]
#[pyo3(signature = (folder, network, weights, /))]
pub(crate) fn save(
    folder: PathBuf,
    network: &Bound<'_, Network>,
    weights: &Bound<'_, Weights>,
) -> PyResult<()> {
    let (json, bytes) = network.get().with(|network| {
        let json = network_to_json(network);
        let json = json.map_err(|error| FileError::new_err(error.to_string()))?;
        let parameters = weights.get().for_network(network)?;
        Ok::<_, PyErr>((json, parameters.to_safetensors(network).map_err(errors::weights)?))
    })?;
    let write = || {
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(Folder::NETWORK), json)?;
        std::fs::write(folder.join(Folder::WEIGHTS), bytes)
    };
    if folder.join(Folder::CONFIG).exists() {
        let name = folder.display();
        return Err(FileError::new_err(format!(
            "{name}: expected a folder without {}, which describes another model",
            Folder::CONFIG
        )));
    }
    write().map_err(errors::system(&folder, "a folder that can be written"))
}
