// The Chinese for every English text of the pages, one per line. Names of settings stay as they
// are.
export const zh = Object.fromEntries(`
  the service does not answer|服务没有响应
  Parts of the console|控制台的各个部分
  Raindrop console|Raindrop 控制台
  Try|试用
  Inspect|解析
  Plan|规划
  Cluster|集群
  Codes|Code
  Timestamp|时间戳
  Data centre|数据中心
  Worker|机器号
  Lane|Lane（回拨位）
  Sequence|序列号
  Reserved|保留位
  Unused|未用
  millisecond|毫秒
  10ms|10 毫秒
  Order of the fields|字段顺序
  time-worker-sequence|时间戳 · 机器号 · 序列号
  time-sequence-worker|时间戳 · 序列号 · 机器号
  second|秒
  minute|分钟
  hour|小时
  day|天
  {bits} bit|{bits} 位
  {bits} bits|{bits} 位
  Bits from the most significant: {told}|从最高位起的各个位：{told}
  New code|新建 code
  Every node can issue it a moment later. Increment and remainder are fixed from then on.|片刻之后，每个节点都能发它的号。步长和余数此后不能更改。
  Namespace|命名空间
  Start|起始值
  Largest number|最大值
  empty: none below 2^63|留空：仅受 2^63 限制
  empty: as configured|留空：按配置
  Smallest step|最小号段
  Largest step|最大号段
  Increment|步长（increment）
  Remainder|余数（remainder）
  Written as|写作
  empty: plain|留空：纯数字
  Stay below 2^53, safe in JavaScript|保持在 2^53 以下，JavaScript 中不丢精度
  Gap after a fail-over|故障切换后跳过的号数
  Strict: ascending over all nodes, none without the store; needs a gap|严格：所有节点间递增，存储不可用时不发号；须填跳过的号数
  Create|新建
  Done|完成
  Widen {code}|放宽 {code}
  Larger steps ask the store less often. A crash loses up to two blocks of this size, and one that was being reserved.|号段越大，访问存储越少。一次崩溃最多丢两个号段，外加正在预留的一个。
  Save|保存
  by|增加
  to|提高到
  Raise {code}|提高 {code}
  The numbers that are skipped are never issued. This is always safe, and cannot be undone.|跳过的号码永远不会发出。这样做总是安全的，但不能撤销。
  Next now: {next}|当前的下一个号：{next}
  Raise|提高
  Number|数值
  Retire {code}|停用 {code}
  No node will ever issue a number of it again. This cannot be undone.|任何节点都不会再发它的号。此操作不能撤销。
  Type {code} to confirm|输入 {code} 以确认
  Retire for ever|永久停用
  this is not {code}|与 {code} 不一致
  {sum} in ten minutes|十分钟内共 {sum}
  {rate}/s|{rate}/秒
  Release worker {id}?|释放机器号 {id}？
  Its lease ends now, and another node may take it. If {holder} still runs, it uses up its range and takes another worker id: no ID is issued twice.|它的租约立即结束，其他节点可以使用它。如果 {holder} 仍在运行，它会用完手中的范围再换用另一个机器号，不会重复发号。
  For a machine that is gone for good.|用于已经彻底下线的机器。
  Release|释放
  Released|已释放
  It was free already|本来就是空闲的
  this node|本节点
  Release worker {id}|释放机器号 {id}
  Holder|持有者
  Lease ends|租约到期
  Renewed|上次续约
  Action|操作
  Workers of {name}|{name} 的机器号
  IDs issued|发出的 ID
  Requests that waited|等待过的请求
  Requests refused|被拒绝的请求
  Clock steps back|时钟回拨
  issuing|正在发号
  not issuing|未在发号
  Mode|模式
  plain numbers|号段（连续数字）
  Numbers in hand|手中的号码
  Worker of this node|本节点的机器号
  Issues without the store for|没有存储时还可发号
  over|已到期
  held|使用中
  lease over|租约已到期
  free|空闲
  Worker ids of {name}: {n} of {all} are held|{name} 的机器号：共 {all} 个，{n} 个使用中
  Each cell is {n} worker ids.|每格代表 {n} 个机器号。
  None in ten minutes: {what}|十分钟内没有：{what}
  The store does not answer|存储没有响应
  The store answers again|存储已恢复
  This node without the store|没有存储时的本节点
  {n} numbers in hand|手中有 {n} 个号码
  Issued in ten minutes|十分钟内发出
  Refused in ten minutes|十分钟内拒绝
  Until then this node issues from memory.|在此之前，本节点凭内存中的数据发号。
  This node issues again as soon as the store answers.|存储一恢复，本节点就会继续发号。
  Bring the store back: every node then renews its leases by itself, and nothing needs a restart.|请恢复存储：各节点会自动续约，无需重启任何程序。
  Unknown until the store answers.|存储恢复后才能得知。
  This node, last ten minutes|本节点，最近十分钟
  Who holds which worker|机器号的持有者
  The store is not verified: another server on the network can pose as it.|未验证存储的身份：控制网络的人可以冒充它。
  Try again|重试
  used up|已用完
  in more than 1000 years|一千多年以后
  on average|平均
  Known after {n} numbers and a minute: until then, reserved numbers would count, too.|发出 {n} 个号码并满一分钟后才能得知：在此之前会计入只是预留的号码。
  Used|已用
  In hand|手中
  no end below 2^63|2^63 以内没有上限
  Widen|放宽
  Retire|停用
  Nodes reserve numbers in blocks, so the next number moves in steps. Rates count what was issued.|节点按号段预留号码，所以“下一个号”成段前进。速率只计已发出的号码。
  configured|配置文件
  managed|在线管理
  automatic|自动创建
  unserved|未提供服务
  retired|已停用
  Kind|类型
  Next|下一个号
  Left|剩余
  Step|号段
  Rate|速率
  Runs out|用完时间
  Actions|操作
  There is no code yet.|还没有 code。
  Cancel|取消
  This service needs a token|此服务需要令牌
  Token|令牌
  Kept in memory until you close or reload the page, and nowhere else.|只保存在内存中，关闭或刷新页面后即消失。
  Use this token|使用此令牌
  default|默认
  required|必填
  Parameters|参数
  Responses|响应
  Schemas|数据结构
  Loading…|正在加载…
  Send|发送
  What holds for every request|所有请求的共同规则
  API documentation|API 文档
  Routes|路由
  Copy|复制
  Copied|已复制
  A UUID of another system, of version {n}.|其他系统的 UUID，版本 {n}。
  could be base32, base36, base62, base62-sorted or base64url: choose the encoding|可能是 base32、base36、base62、base62-sorted 或 base64url：请选择编码
  {n} IDs of this worker|此机器号有 {n} 个 ID
  yes|是
  no|否
  Time (UTC)|时间（UTC）
  Age|距今
  Safe in JavaScript|JavaScript 安全
  {n} IDs by time|按时间排列的 {n} 个 ID
  Workers with the same colour are the same worker.|颜色相同的是同一个机器号。
  IDs by time|按时间排列的 ID
  find out|自动识别
  namespace {name}|命名空间 {name}
  layout {name}|布局 {name}
  this service|本服务
  a layout to describe|自己描述的布局
  Fields|字段
  From the most significant, with their widths in bits.|从最高位起，写明各字段的位数。
  If it is not the usual one of the layout.|与该布局通常的起点不同时填写。
  An ID tells when and by which worker it was made. To read those of other systems, choose their layout.|ID 记录了生成的时间和机器号。要解析其他系统的 ID，请选择它们的布局。
  {n} IDs: at most {most} at a time|{n} 个 ID：每次最多 {most} 个
  Not read|无法解析
  Another layout?|是另一种布局吗？
  With this one the time cannot be right. With these it can:|按当前布局，时间不合理。按以下布局则合理：
  From {first} to {last}|从 {first} 到 {last}
  The same in all|全部相同的字段
  IDs|ID
  Up to 1000, in lines or with commas or blanks between them.|最多 1000 个：每行一个，或用逗号、空格分隔。
  Encoding|编码
  Read as|解析方式
  Light|浅色
  Dark|深色
  Forget token|清除令牌
  Metrics|监控指标
  The service does not answer. The next attempt is in {seconds} s.|服务没有响应，{seconds} 秒后重试。
  yes: below 2^53, exact as a JavaScript number|是：小于 2^53，可以用 JavaScript 数字精确表示
  no: above 2^53, keep it as a string in JavaScript|否：大于 2^53，在 JavaScript 中请用字符串保存
  Local time|本地时间
  Layout|布局
  The time wraps|时间会循环
  the latest instant with these bits is shown|显示的是与这些位相符的最近时刻
  In every encoding|各种编码
  {name} (case matters)|{name}（区分大小写）
  your own|自定义
  {n} in each {unit}|每{unit} {n} 个
  The bits|位的划分
  {bits} of 63 bits are used.|共 63 位，用了 {bits} 位。
  What it gives|容量与期限
  IDs per second and node|每秒 ID 数（每个节点）
  IDs per second, all nodes|每秒 ID 数（全部节点）
  IDs per tick and node|每个时间单位的 ID 数（每个节点）
  Nodes|节点数
  Data centres|数据中心数
  Lanes for clock steps|可供时钟回拨使用的 lane
  Last day|最后一天
  the year {year}|{year} 年
  none: the time wraps every {n} s|无：时间每 {n} 秒循环一次
  Safe in JavaScript until|JavaScript 安全期至
  always|始终
  Configuration|配置
  This cannot be|此布局不成立
  Begin with|从此开始
  {rate}/s per node · {nodes} nodes · until {day}|每节点 {rate}/秒 · {nodes} 个节点 · 至 {day}
  Unit of time|时间单位
  Epoch|纪元（epoch）
  First sequence number|最小序列号
  Last sequence number|最大序列号
  The sequence gets the bits that are left of 63.|63 位中剩下的位归序列号。
  Border of {name}|{name}的边界
  Drag the borders, or move them with the arrow keys.|拖动边界，或用方向键移动。
  by code|由 code 决定
  link|链接
  {n} IDs by id % {k}|{n} 个 ID 按 id % {k} 的分布
  Inspect it|解析
  A plain number, without fields or a time.|这是连续数字，没有字段和时间。
  Choose its namespace to see its time.|选择命名空间后显示时间。
  Answer|响应
  {n} IDs|{n} 个 ID
  How many|数量
  Format|格式
  Get IDs|获取 ID
  One ID each second|每秒一个 ID
  Newest ID|最新的 ID
  For programs|在程序中使用
  Spread over shards|分片是否均匀
  How evenly id % k chooses among k tables.|id % k 在 k 张表之间的分布。
  No ID was claimed yet.|还没有获取 ID。
  Skip to the content|跳到内容
  Shown is the last answer, from {age} ago.|当前显示的是 {age} 前的最后一次响应。
  As the store had it {age} ago.|存储 {age} 前的状态。
  Overview|概览
  {n} of {all} namespaces in trouble|{all} 个命名空间中有 {n} 个异常
  every namespace issues|所有命名空间都在发号
  Nodes with a lease|持有租约的节点
  Leases that are over|已到期的租约
  This node issues without the store for|没有存储时本节点还可发号
  {first}–{last} of {all}|第 {first}–{last} 行，共 {all} 行
  none found|没有找到
  No row has these words.|没有包含这些词的行。
  Filter|筛选
  Filter {what}|筛选：{what}
  Previous page|上一页
  Next page|下一页
  {n} codes read…|已读取 {n} 个 code…
  The first {n} codes|前 {n} 个 code
  {n} codes behind {code}|{code} 之后的 {n} 个 code
  The codes behind {code}|{code} 之后的 code
  From the first|从头开始
  What is this?|这是什么？
  One value of the rollback bits. When the clock goes back, a node goes on in another lane of its worker id, and so repeats no ID.|回拨位的一个取值。时钟回拨时，节点换用同一机器号的另一个 lane 继续发号，因此不会重复。
  How many numbers the next block will have that a node reserves for this code. It grows and shrinks with the demand.|节点下一次为此 code 预留的号码个数，随需求增减。
  Numbers that this node has reserved and not issued yet. It issues them without the store; a crash loses them.|本节点已预留、尚未发出的号码。没有存储也能发出；崩溃时会丢失。
  The instant at which the timestamp of an ID is 0. IDs of another epoch have other times.|ID 的时间戳为 0 的时刻。纪元不同，ID 对应的时间也不同。
  {day}, which is past|{day}（已过）
  Reading {n} IDs…|正在读取 {n} 个 ID…
`.trim().split('\n').map((line) => line.trim().split('|')));

// Patterns of the server's texts, each with its translation.
export const patterns = [
  [/^the timestamp (?:the year )?(\S+) is in the future$/, '时间 $1 在未来'],
  [/^the timestamp (?:the year )?(\S+) is before (\S+) issued its first IDs \((.+)\)$/, '时间 $1 早于 $2 发出首批 ID 的时间（$3）'],
  [/^layout = timestamp (\d+) \+ data centre (\d+) \+ worker (\d+) \+ rollback (\d+) \+ reserved (\d+) = (\d+) bits.*: must be at most (\d+) bits.*$/, '时间戳 $1 + 数据中心 $2 + 机器号 $3 + 回拨位 $4 + 保留位 $5 = $6 位：最多 $7 位，至少留 1 位给序列号'],
  [/^(?:layout\.)?(\w+) = "?(.*?)"?(?: \(\w+\))?: must be (\d+) to (\d+)(?: .*)?$/, '$1 = $2：必须在 $3 到 $4 之间'],
  [/^layout\.epoch = (.*) \(epoch\): must be an RFC 3339 instant such as (.+)$/, 'epoch = $1：必须是 RFC 3339 时刻，例如 $2'],
  [/^position (\d+): '(.*)' is not a decimal digit.*$/, "位置 $1 的 '$2' 不是十进制数字；如为其他编码，请选择该编码"],
  [/^an ID is at most (\d+), .*$/, 'ID 最大为 $1（2^63 - 1）'],
  [/^namespace "(.+)" is in segment mode.*$/, '命名空间 $1 为号段模式：其 ID 是连续数字，没有字段和时间'],
  [/^code "(.*)" must match (.+)$/, 'code "$1" 必须符合 $2'],
  [/^the store cannot be reached: (.+)$/, '无法连接存储：$1'],
];
