// The form of choose.md: memory of a fit, and the solver that `auto` is likely to take.
// Costs repeat daskglm/solvers/workload.py and the cost functions beside the solvers;
// tests/test_chooser.py compares both. All constants come from the package.
"use strict";

(() => {
  const constants = JSON.parse(document.getElementById("chooser-constants").textContent);
  const { costs, losses, itemsize, solvers } = constants;
  const GIB = 2 ** 30;
  const LARGEST_INDEX = 2 ** 31 - 1;
  const TOL = 1e-6;

  // ---- memory
  // Bytes of CSR with `stored` values; `whole` is false for partitions with few values each.
  function csrBytes(fit, whole) {
    const wide = (whole && fit.nonzeros >= LARGEST_INDEX) || fit.features >= LARGEST_INDEX;
    const index = wide ? 8 : 4;
    return fit.nonzeros * (fit.itemsize + index) + (fit.rows + 1) * index;
  }

  function memoryOf(fit) {
    const dense = fit.nonzeros * fit.itemsize;
    const bytes = fit.sparse ? csrBytes(fit, true) : dense;
    const inPartitions = fit.sparse ? csrBytes(fit, false) : dense;
    const usable = constants.pause * fit.workers * fit.workerMemory * GIB;
    return {
      bytes,
      inPartitions,
      usable,
      inProcess: constants.beside * bytes <= fit.memory * GIB,
      onWorkers: fit.workers > 0 && constants.beside * inPartitions <= usable,
    };
  }

  // ---- costs, in passes
  class Workload {
    constructor(fit, place) {
      const loss = losses[fit.loss];
      const onWorkers = place.startsWith("workers");
      Object.assign(this, fit, {
        size: fit.features + 1,
        smooth: loss.smooth,
        quadratic: loss.quadratic,
        jumps: loss.jumps,
        hasEnds: loss.has_ends,
        hasDual: loss.has_dual,
        hasCorners: loss.has_corners,
        samples: !place.endsWith("read"),
        processes: onWorkers ? fit.workers : 1,
      });
      this.remote = onWorkers && this.samples;
      const curvature = loss.curvature === null ? Infinity : loss.curvature;
      this.ratio = curvature * fit.C * fit.squares * this.processes;
      this.threads = this.remote ? fit.workers * fit.threads : 1;
      this.nbytes = memoryOf(fit).inPartitions;
    }

    get values() { return Math.max(this.nonzeros, 1); }
    get perRow() { return this.nonzeros / this.rows; }
    get rowsSeconds() {
      const wide = 1 + Math.sqrt(this.features / costs.CACHED_FEATURES);
      const values = this.sparse
        ? this.nonzeros * costs.SPARSE_SECONDS * wide : this.nbytes * costs.BYTE_OF_ROW_SECONDS;
      return values + this.rows * costs.ROW_SECONDS;
    }
    get passSeconds() { return costs.REQUEST_SECONDS + this.rowsSeconds; }
    get rowsShare() { return this.rowsSeconds / this.passSeconds; }
    get decadesOfRows() {
      return Math.log10(Math.max(this.rows / Math.max(this.features, 1), 1));
    }
    get wantOfRows() {
      return this.jumps ? Math.max(1 - this.decadesOfRows / costs.SMOOTHING_DECADES, 0) : 0;
    }
    get decades() {
      const more = this.jumps
        ? (costs.MOST_JUMP_DECADES - costs.MOST_DECADES) * this.wantOfRows
        : 0;
      const most = costs.MOST_DECADES + more;
      return Math.min(Math.log10(1 + this.ratio), most);
    }

    get entries() {
      const entries = costs.HESSIAN_ENTRY_VALUES * this.features ** 2 / this.values;
      return this.sparse ? entries * this.rowsShare : 0;
    }

    get gram() {
      if (!this.sparse) return this.rowsShare * this.perRow / costs.DENSE_HESSIAN_VALUES;
      const cached = this.features <= costs.CACHED_HESSIAN;
      const values = cached ? costs.SPARSE_HESSIAN_VALUES : costs.LARGE_HESSIAN_VALUES;
      return this.rowsShare * this.perRow / values + this.entries;
    }

    get factorisation() {
      return costs.SOLVE_SECONDS * this.features ** 3 / this.passSeconds;
    }

    get solve() {
      return costs.SOLVED_ENTRY_SECONDS * this.features ** 2 / this.passSeconds;
    }

    get hessianStep() { return 1 + this.gram + this.factorisation + this.rounds(); }
    get chordStep() { return 1 + this.solve + this.rounds(); }

    // Whether Newton's method takes steps by the Hessian of another point, to save some.
    get keepsHessians() {
      return this.samples && !this.quadratic && !this.hasEnds && this.wantOfRows <= costs.MOST_WANT
        && this.hessianStep >= costs.LEAST_CHORDS * this.chordStep;
    }

    get isSmall() {
      const passes = this.gram + this.factorisation;
      return passes * this.passSeconds <= costs.SMALL_SECONDS;
    }

    vectors(count) { return count * costs.VECTOR_SECONDS * this.size / this.passSeconds; }

    rounds(count = 1) {
      if (!this.remote) return 0;
      const message = costs.MESSAGE_SECONDS + costs.BYTE_SECONDS * 2 * 8 * this.size;
      return count * this.passesOf(costs.ROUND_SECONDS + message * this.processes);
    }

    passesOf(seconds) {
      return seconds / (costs.REQUEST_SECONDS + this.rowsSeconds / this.threads);
    }

    bytesOf(share) { return share * (this.nbytes + constants.row_bytes * this.rows); }
    travels(share) { return this.bytesOf(share) <= constants.travelling_bytes; }

    // Messages about samples of these shares of the rows, together: their rows travel, if they may.
    sampleRounds(share, count) {
      if (!this.remote || !this.travels(share)) return this.rounds(count);
      return this.rounds() + this.passesOf(costs.SAMPLE_BYTE_SECONDS * this.bytesOf(share));
    }

    get tronProduct() {
      return costs.PRODUCT_PASSES + this.vectors(costs.TRON_VECTORS) + this.rounds();
    }

    // Share of the rows in all samples on which Newton's method begins.
    get sampleShares() {
      const cheap = this.sparse && this.gram / this.rowsShare < costs.CHEAP_HESSIAN;
      if (!this.samples || this.nonzeros < costs.SAMPLED_VALUES || cheap) return 0;
      const wanted = 5 * this.size / Math.sqrt(Math.min(Math.max(TOL, 1e-12), 1e-5));
      const least = 20 * this.size / this.rows;
      let shares = 0;
      for (let share = Math.min(0.1, wanted / this.rows); share >= least; share /= 4) {
        shares += share;
      }
      return shares;
    }

    newton() {
      if (this.features > costs.LARGEST_HESSIAN) return Infinity;
      const usual = this.jumps
        ? costs.JUMP_STEPS + costs.JUMP_STEPS_PER_DECADE * this.wantOfRows * this.decades
        : costs.NEWTON_STEPS + costs.STEPS_PER_DECADE * this.decades;
      const steps = this.quadratic ? costs.QUADRATIC_STEPS : usual;
      if (this.isSmall || (!this.samples && this.features <= costs.FEW_FEATURES)) return steps;
      if (this.sampleShares) {
        const more = this.quadratic ? 0 : costs.HESSIANS_PER_DECADE * this.decades;
        const hessians = Math.min(
          (costs.SAMPLED_HESSIANS + more) * this.gram,
          costs.SAMPLE_STEPS * (1 + this.decades) + costs.SAMPLE_HESSIANS * this.gram,
        );
        return costs.SAMPLED_PASSES + hessians
          + costs.SAMPLED_FACTORS * (this.factorisation + this.entries)
          + this.rounds(costs.WHOLE_ROUNDS)
          + this.sampleRounds(this.sampleShares, costs.SAMPLED_ROUNDS);
      }
      if (!this.keepsHessians) return steps * this.hessianStep;
      const kept = costs.KEPT_HESSIANS + costs.KEPT_PER_DECADE * this.decades;
      const chords = costs.CHORDS + costs.CHORDS_PER_DECADE * this.decades;
      return kept * this.hessianStep + chords * this.chordStep;
    }

    tron() {
      const power = Math.max(costs.TRON_POWER - costs.TRON_POWER_LESS * this.decadesOfRows, 0);
      const ratio = costs.TRON_RATIO * (10 ** this.decades - 1);
      const passes = costs.TRON_PASSES * (1 + ratio) ** power;
      return passes * (this.quadratic ? costs.QUADRATIC_SHARE : 1) * this.tronProduct;
    }

    // Less where rows are nearly orthogonal.
    get rowRatio() {
      const features = this.sparse || this.jumps ? Math.max(this.features, 1) : 1;
      const rows = this.jumps ? costs.CURVED_ROWS * this.rows : this.rows;
      const apart = Math.max(1 - Math.sqrt(rows / features), 0) ** 2;
      return Number.isFinite(this.ratio) ? this.ratio / (1 + apart * this.ratio) : this.ratio;
    }

    sdca() {
      const more = costs.EPOCHS_PER_RATIO * this.rowRatio ** costs.EPOCHS_POWER;
      const epochs = this.smooth ? costs.SDCA_EPOCHS + more : costs.CORNER_EPOCHS;
      const wide = 1 + this.features / costs.EPOCH_FEATURES;
      const values = this.sparse
        ? this.nonzeros * costs.EPOCH_SPARSE_SECONDS * wide
        : this.nonzeros * costs.EPOCH_DENSE_SECONDS + this.nbytes * costs.BYTE_OF_ROW_SECONDS;
      const seconds = costs.REQUEST_SECONDS + costs.ITERATION_SECONDS
        + costs.EPOCH_ROW_SECONDS * this.rows + values;
      const epoch = seconds / this.passSeconds + this.vectors(costs.EPOCH_VECTORS)
        + this.rounds(costs.EPOCH_ROUNDS);
      const share = this.smooth ? costs.SEEN_EPOCH_COST : 1;
      return share * Math.max(-Math.log10(TOL), 1) / 6 * epochs * epoch;
    }

    proximal() {
      if (this.features > costs.LARGEST_HESSIAN) return Infinity;
      return costs.PROXIMAL_PASSES + costs.PROXIMAL_HESSIANS * (1 + this.gram);
    }
  }

  // Return the solver that `auto` takes, and the costs of all that it may take.
  function automatic(fit, place) {
    const work = new Workload(fit, place);
    const expected = {};
    if (work.smooth) Object.assign(expected, { newton: work.newton(), tron: work.tron() });
    if (work.hasDual) expected.sdca = work.sdca();
    if (work.hasCorners) expected.proximal = work.proximal();
    const names = Object.keys(expected);
    let taken = names.reduce((a, b) => (expected[b] < expected[a] ? b : a));
    // Newton's cost is certain
    if (taken === "tron" && expected.newton <= costs.CERTAIN * expected.tron) taken = "newton";
    return { taken, expected };
  }

  function possible(fit) {
    const loss = losses[fit.loss];
    const tooLarge = 8 * fit.features ** 2 > constants.hessian_bytes;
    return Object.keys(solvers).filter(name => {
      if (solvers[name].hessian && tooLarge) return false;
      if (solvers[name].corners) return loss.rounds_corners;
      return solvers[name].dual ? loss.has_dual : loss.smooth;
    });
  }

  function call(fit, place) {
    const given = ["X", "y", `loss="${fit.loss}"`];
    if (fit.C !== 1) given.push(`C=${fit.C}`);
    if (place.startsWith("workers")) given.push("client=client");
    if (place.endsWith("read")) given.push("out_of_core=True");
    const lines = ["import daskglm", ""];
    if (place.startsWith("workers")) {
      lines.push("# client: a distributed.Client of the workers; X and y: dask collections");
    } else if (place.endsWith("read")) {
      lines.push("# X and y: dask collections, read from their source at every pass");
    }
    lines.push(`model = daskglm.fit(${given.join(", ")})`, "print(model.report_)");
    return lines.join("\n");
  }

  // ---- the page
  const form = document.getElementById("chooser");
  const at = name => document.getElementById(`chooser-${name}`);

  function size(bytes) {
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = 0;
    while (bytes >= 1024 && unit < units.length - 1) {
      bytes /= 1024;
      unit += 1;
    }
    return `${unit ? Number(bytes.toPrecision(3)) : bytes} ${units[unit]}`;
  }

  // Write an answer, and beside it the value that it was made from.
  function show(name, text, value) {
    at(name).textContent = text;
    at(name).dataset.value = value;
  }

  function read() {
    const field = name => form.elements[name];
    const fault = [...form.elements].find(each => each.willValidate && !each.validity.valid);
    if (fault) return { fault: `${fault.labels[0].firstChild.data.trim()}: ${fault.validationMessage}` };
    const number = name => Number(field(name).value);
    const sparse = field("storage").value === "sparse";
    const [rows, features] = [number("rows"), number("features")];
    const stored = sparse ? number("stored") : features;
    if (stored > features) return { fault: "A row has more stored values than there are features." };
    if (!number("C")) return { fault: "C: it must be above 0." };
    return {
      rows,
      features,
      sparse,
      nonzeros: Math.round(rows * stored),
      itemsize: itemsize[field("dtype").value],
      squares: field("squares").value === "" ? stored : number("squares"),
      loss: field("loss").value,
      C: number("C"),
      memory: number("memory"),
      workers: number("workers"),
      workerMemory: number("worker_memory"),
      threads: number("threads"),
    };
  }

  function showMemory(fit, memory, place) {
    const total = constants.beside * memory.bytes;
    let text = `${size(memory.bytes)}; ${size(total)} with the tenth beside them`;
    if (memory.inPartitions !== memory.bytes) {
      text += `. In partitions of fewer than 2^31 - 1 values each: ${size(memory.inPartitions)}`;
    }
    show("bytes", text, memory.bytes);
    const verdicts = [memory.inProcess ? "They fit in this process." : "They do not fit in this process."];
    if (fit.workers) {
      const verb = memory.onWorkers ? "fit" : "do not fit";
      verdicts.push(`They ${verb} on the workers, which may use ${size(memory.usable)} together.`);
    }
    if (place.endsWith("read")) verdicts.push("Use out_of_core=True.");
    show("place", verdicts.join(" "), place);

    const hessian = 8 * fit.features ** 2;
    let verdict = "newton is not offered for this loss.";
    if (losses[fit.loss].smooth) {
      verdict = "auto considers newton.";
      if (fit.features > costs.LARGEST_HESSIAN) {
        verdict = `auto does not consider newton above ${costs.LARGEST_HESSIAN} features; `
          + 'solver="newton" is accepted.';
      }
      if (hessian > constants.hessian_bytes) {
        verdict = `newton is refused above ${size(constants.hessian_bytes)}.`;
      }
    }
    show("hessian", `${size(hessian)} for each thread. ${verdict}`, hessian);
  }

  function showSolver(fit, place) {
    const names = possible(fit);
    show("solvers", names.join(", "), names.join(" "));
    const { taken, expected } = automatic(fit, place);
    const known = Object.keys(expected).filter(name => Number.isFinite(expected[name]));
    const list = known.map(name => `${name} ${Number(expected[name].toPrecision(3))}`).join(", ");
    const text = losses[fit.loss].smooth
      ? `${taken}. Foreseen passes: ${list}.` : `${taken}: no other solver takes this loss.`;
    show("auto", text, taken);
    at("auto").dataset.costs = JSON.stringify(
      Object.fromEntries(known.map(name => [name, expected[name]])),
    );
  }

  function update() {
    form.elements.stored.disabled = form.elements.storage.value !== "sparse";
    const fit = read();
    at("fault").textContent = fit.fault || "";
    at("answer").hidden = Boolean(fit.fault);
    if (fit.fault) return;
    const memory = memoryOf(fit);
    let place = fit.workers ? "workers, read" : "process, read";
    if (memory.onWorkers) place = "workers";
    if (memory.inProcess) place = "process";
    showMemory(fit, memory, place);
    showSolver(fit, place);
    at("call").textContent = call(fit, place);
  }

  for (const name of Object.keys(itemsize)) {
    const kept = `float${8 * itemsize[name]}`;
    form.elements.dtype.add(new Option(name === kept ? name : `${name} (becomes ${kept})`, name));
  }
  for (const name of Object.keys(losses)) form.elements.loss.add(new Option(name, name));
  form.elements.dtype.value = "float64";
  form.elements.loss.value = "logistic";
  form.addEventListener("input", update);
  form.addEventListener("submit", event => event.preventDefault());
  at("copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText(at("call").textContent);
    at("copy").textContent = "Copied";
    setTimeout(() => { at("copy").textContent = "Copy"; }, 2000);
  });
  update();
})();
