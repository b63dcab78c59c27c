/**
 * Words of instructions to a model, by their role in the instruction. `stem*` matches every word with that beginning.
 * Languages: English, German, French, Spanish, Portuguese, Italian, Dutch, Polish, Russian, Ukrainian, Turkish, Indonesian,
 * Vietnamese, Arabic, Persian, Hindi. Languages without spaces between words are in `PHRASES`.
 */
export const ROLES = {
  /** To disregard instructions. */
  ignore: `ignore ignoring disregard* forget neglect discard bypass override overrule supersede
    ignorier* missacht* vergiss vergessen* ignorez ignorer oubli* ignora ignore ignorá ignoren ignorar olvid* omite omitir omiso
    esquec* esqueça desconsider* desconsidere ignori ignorare dimentic* tralascia* negeer negeren vergeet vergeten
    zignoruj* ignoruj* zapomnij pomiń игнорир* проигнорир* забудь* забыть ігнор* проігнор* görmezden yoksay* unut* dikkate
    abaikan lupakan تجاهل تجاهلي تجاهلوا انس نادیده अनदेखा नज़रअंदाज़ भूल इग्नोर`,
  /** Which instructions: the earlier ones. */
  prior: `previous previously prior earlier above preceding foregoing existing original initial system all any other every system
    vorherig* vorangegangen* bisherig* obig* fruher* alle allen précédent* antérieur* anterior* anteriores previ* todas todos
    tod* preceden* precedent* vorige eerdere bovenstaande poprzedni* wcześniejsz* wszystk* предыдущ* прошл* прежни* все всех
    попередн* усі всі önceki tüm bütün sebelumnya semua السابقة السابق جميع كل قبلی पिछले पिछली सभी`,
  /** Unambiguous words for the input of a model. */
  instruction: `instruction* instructed prompt prompts directive* guideline* guardrail* anweisung* instruktion* vorgabe* consigne*
    instruccion* instrucc* indicacion* directric* instruc* instruç* istruzion* direttiv* instructie* opdracht* aanwijzing*
    instrukcj* polecen* wytyczn* инструкц* указани* промпт* інструкц* вказівк* talimat* yönerge* komut* instruksi perintah
    تعليمات التعليمات الأوامر أوامر دستورات دستورالعمل* निर्देश निर्देशों आदेश आदेशों`,
  /** Ambiguous words for the same. */
  rule: `rule rules message messages context command commands restriction* constraint* regel* règle* regla* regra* regol* zasad*
    правил* kural* aturan`,
  everything: `everything anything alles tout todo tudo tutto wszystko всё все`,
  not: `not dont never without cannot nicht nie niemals ohne ne pas jamais sans no nunca sin não nem sem non mai senza niet
    nooit zonder nie nigdy bez не никогда без ні ніколи jangan لا عدم मत`,
  tell: `tell telling mention mentioning inform informing notify notifying reveal revealing disclose disclosing show alert
    erzähl* erwähn* sage sagen informier* mitteil* verrat* dis dire dites mentionn* informer informez informe révél* digas diga decir menciones
    mencion* informar informare reveles revel* avis* conte contar dizer dica dire menzion* rivel* avvis* vertel* vermeld* onthul* meld mów mow
    powiedz* wspomin* informuj* ujawni* говори* сообщай* сообща* упомин* раскрыва* рассказыва* кажи* повідомляй* söyleme*
    bahsetme* beritahu* memberi sebutkan تخبر تذكر تبلغ تكشف بتان* बताना बताएं बताओ`,
  /** To tell, in languages that put the negation behind the verb. */
  tellNot: `erzähl* erwähn* sage sag sagen teile informiere verrate vertel* vermeld* onthul*`,
  person: `user users human humans person people operator benutzer* nutzer* anwender* utilisateur* usuario* usuári* utent*
    gebruiker* użytkowni* пользовател* користувач* kullanıcı* pengguna المستخدم للمستخدم المستخدمين کاربر उपयोगकर्ता यूज़र`,
  /** The model that reads the text. */
  model: `assistant assistants model llm llms ai agent agents chatbot claude gpt chatgpt gemini copilot assistent* assistente*
    asistente* ассистент* помощник* модель asystent* modèle modelo modell* modello`,
  you: `you`,
  must: `must should shall need needs required have has always muss musst müssen soll sollst sollte doit dois devez debe debes
    deberá deve devi deves moet moeten musi musisz powinien должен должна должны обязан*`,
  act: `call use invoke run execute read send include pass append fetch forward copy upload attach output obey follow aufrufen
    verwenden lesen senden appeler utiliser lire envoyer llamar usar leer enviar chamar ler chiamare leggere inviare aanroepen
    lezen sturen wywoł* wyślij прочита* отправ* вызва* вызов*`,
  use: `using calling invoking running executing use call`,
  before: `before prior bevor vor avant antes prima voordat przed перед прежде`,
  tool: `tool tools function functions werkzeug* funktion* outil* herramienta* ferramenta* strument* funcion* narzędzi*
    инструмент* функци*`,
  determiner: `any every all other another this each first irgendein* jede* andere* tout* autre* cualquier* otra* otro* qualquer
    outr* altri altro ander* inn* любо* друг*`,
  secret: `prompt prompts`,
  systemic: `system developer hidden initial initiale systeme sistema systemowy системн*`,
  reveal: `reveal print repeat output leak show display paste copy return include ignore send zeige wiederhol* affich* répèt*
    muestra repite mostra repita ripeti pokaż покажи повтори* выведи`,
  whole: `full entire whole complete previous prior all raw`,
  dialogue: `conversation conversations transcript chat dialog dialogue chatlog`,
  attach: `include append pass put paste attach forward embed insert`,
} as const;

/** Phrases of languages without spaces between words. Gaps are bounded. */
export const PHRASES: readonly RegExp[] = [
  /(?:忽略|无视|無視|忘记|忘記|忘掉|不要理会|不要遵守).{0,12}(?:指令|指示|提示|规则|規則|说明|說明|命令|要求)/u,
  /(?:不要|别|請勿|请勿|勿|不得|切勿|不可).{0,4}(?:告诉|告訴|告知|提及|透露|通知|提到).{0,8}(?:用户|用戶|使用者|人类|人類)/u,
  /(?:指示|命令|プロンプト|指令|ルール|説明).{0,8}(?:無視|忘れ)/u,
  /(?:無視|忘れ).{0,12}(?:指示|命令|プロンプト|指令)/u,
  /(?:ユーザー?|利用者|使用者).{0,14}(?:言わない|伝えない|知らせない|話さない|教えない|明かさない)/u,
  /(?:지시|명령|지침|프롬프트|규칙).{0,10}(?:무시|잊)/u,
  /(?:사용자|유저|이용자).{0,14}(?:말하지|알리지|언급하지|알려주지|밝히지)/u,
  /(?:ละเว้น|เพิกเฉย|ไม่ต้องสนใจ|อย่าสนใจ|ลืม).{0,24}(?:คำสั่ง|คำแนะนำ)/u,
  /bỏ qua.{0,30}(?:hướng dẫn|chỉ dẫn|chỉ thị|lệnh)/u,
  /התעלם.{0,25}(?:הוראות|ההוראות|הנחיות)/u,
];

/** Prompt delimiters, and paths of files with secrets. */
export const MARKS: readonly RegExp[] = [
  /<\s*\/?\s*(?:important|system|instructions?|secret|critical)\s*>/u,
  /<\|(?:im_start|im_end|system|user|assistant|endoftext)\|>|\[\/?inst\]|<<\/?sys>>/u,
  /~\/\.(?:ssh|aws|config|netrc|env|kube|gnupg|cursor|claude)\b|\bid_(?:rsa|ed25519)\b|\/etc\/(?:passwd|shadow)\b/u,
];
