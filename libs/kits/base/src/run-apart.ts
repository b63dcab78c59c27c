/** Runs an action of several. If it throws, the others still run, and the error is uncaught as if the action had been alone. */
export function runApart(action: () => void): void {
  try {
    action();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
