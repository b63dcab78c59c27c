import { IsBoolean, IsInt, IsObject, IsOptional, IsString, Max, MaxLength, Min, MinLength } from 'class-validator';
import type { JsonObject } from '@toolfleet/contracts';

/** Body of `POST /tools/execute` and one item of `/tools/batch-execute`. */
export class ShannonExecuteBody {
  @IsString()
  @MinLength(1)
  @MaxLength(128)
  tool_name!: string;

  @IsObject({ message: 'parameters is required and must be an object' })
  parameters!: JsonObject;

  /** Only session_id of it passes for a public caller. */
  @IsOptional()
  @IsObject()
  session_context?: JsonObject;
}

/** Body of `POST /tools/select`. */
export class SelectBody {
  @IsString()
  @MinLength(1)
  @MaxLength(10_000)
  task!: string;

  @IsOptional()
  @IsObject()
  context?: JsonObject;

  @IsOptional()
  @IsBoolean()
  exclude_dangerous?: boolean;

  @IsOptional()
  @IsInt()
  @Min(0)
  @Max(8)
  max_tools?: number;
}

/** Query of the list endpoints. */
export class ShannonListQuery {
  @IsOptional()
  @IsString()
  @MaxLength(64)
  category?: string;

  /** Accepted and ignored: dangerous tools are always left out. */
  @IsOptional()
  @IsString()
  exclude_dangerous?: string;
}
