import { IsArray, IsInt, IsOptional, IsString, MaxLength, Min, MinLength } from 'class-validator';

/** Body of `POST /api/v1/keys`. */
export class CreateKeyBody {
  @IsString()
  @MinLength(1)
  @MaxLength(64)
  client!: string;

  /** Default: the caller's own tenant; another one takes an operator. */
  @IsOptional()
  @IsString()
  @MinLength(1)
  @MaxLength(64)
  tenant_id?: string;

  @IsOptional()
  @IsString()
  @MinLength(1)
  @MaxLength(128)
  user_id?: string;

  @IsOptional()
  @IsArray()
  @IsString({ each: true })
  roles?: string[];

  @IsOptional()
  @IsArray()
  @IsString({ each: true })
  tools?: string[];

  @IsOptional()
  @IsString()
  @MaxLength(64)
  tier?: string;

  /** Seconds the key lives; absent: until revoked. */
  @IsOptional()
  @IsInt()
  @Min(60)
  expires_in_seconds?: number;
}
