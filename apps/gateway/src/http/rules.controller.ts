import { Controller } from '@nestjs/common';
import { parseInstant, type Principal } from '@toolfleet/contracts';
import type { RouteInput } from '@toolfleet/contracts/resources';
import { RuleTests } from '@toolfleet/rules';
import { Caller } from '../server/guards.js';
import { Input, Serves } from '../server/routes.js';

/** Rules before they are saved. */
@Controller()
export class RulesController {
  constructor(private readonly tests: RuleTests) {}

  /** The effect of a rule on recorded calls. @throws ToolError as `RuleTests.run` */
  @Serves('POST /api/v1/rules/test')
  test(@Caller() caller: Principal, @Input() { body }: RouteInput<'POST /api/v1/rules/test'>) {
    const { from, to, ...test } = body;
    return this.tests.run(caller, {
      ...test,
      from: from === undefined ? undefined : parseInstant(from),
      to: to === undefined ? undefined : parseInstant(to),
    });
  }
}
