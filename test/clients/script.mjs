/**
 * A scripted model: it asks for the tool of each step in turn, then answers. Each framework's file adapts it to the
 * model interface of that framework, and passes on what the framework shows a model.
 */
export class Script {
  /** Names of the tools that the model was offered last. */
  offered = [];
  /** The result of each step as the framework showed it to the model. */
  shown = [];
  #steps;
  #turn = 0;

  /** @param {{name: string, args: object}[]} steps */
  constructor(steps) {
    this.#steps = steps;
  }

  /**
   * The next turn of the model.
   * @param {string[]} offered names of the tools in the request
   * @param {unknown} results the part of the request that holds the result of the last call
   * @returns {{id: string, name: string, args: object} | undefined} the call to make; undefined: the model answers `done`
   */
  next(offered, results) {
    this.offered = offered;
    if (this.#turn > 0) this.shown.push(results);
    const step = this.#steps[this.#turn];
    this.#turn += 1;
    if (!step) return undefined;
    // Frameworks put the name of the server before the tool's.
    const name = offered.find(
      (tool) => tool === step.name || tool.endsWith(`_${step.name}`) || tool.endsWith(`/${step.name}`),
    );
    return { id: `call_${this.#turn}`, name: name ?? step.name, args: step.args };
  }
}
